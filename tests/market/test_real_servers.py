"""Row C1, false positives: rules that look for attacks hardly ever fire on definitions of real servers.

A long test that downloads packages: `TOOLCRIB_SOAK=1`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.market.packages import ask_npm_servers, fetch_wheels, unpack
from toolcrib.catalog.lint import SUSPICIONS, inspect_tools
from toolcrib.sources.scan import scan

pytestmark = pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: TOOLCRIB_SOAK=1")

HIGHEST_SHARE = 0.005


def test_real_servers_from_pypi_are_hardly_ever_suspected(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    total, suspected = 0, {}
    for wheel in fetch_wheels(tmp_path):
        source = unpack(wheel, tmp_path / "unpacked")
        tools = scan(source).tools
        total += len(tools)
        for finding in inspect_tools(tools).findings:
            if finding.code in SUSPICIONS:
                suspected[source.name, finding.tool] = str(finding.message)
    record_property("definitions", total)
    record_property("suspected", len(suspected))
    print(f"{total} definitions from PyPI, {len(suspected)} suspected: {suspected}")
    if total < 300:
        pytest.skip(f"only {total} definitions could be had")
    assert len(suspected) < HIGHEST_SHARE * total, suspected


def test_real_servers_from_npm_are_hardly_ever_suspected(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    answers = ask_npm_servers(tmp_path)
    total = sum(len(answer["tools"]) for answer in answers.values())
    suspected = {
        (package, finding["tool"]): finding["message"]
        for package, answer in answers.items()
        for finding in answer["findings"]
        if finding["code"] in SUSPICIONS
    }
    refused = [
        finding
        for answer in answers.values()
        for finding in answer["findings"]
        if finding["level"] == "error" and finding["code"] not in SUSPICIONS
    ]
    record_property("definitions", total)
    print(f"{total} definitions from npm, {len(suspected)} suspected: {suspected}")
    assert total > 20
    assert len(suspected) <= HIGHEST_SHARE * total, suspected
    assert refused == []

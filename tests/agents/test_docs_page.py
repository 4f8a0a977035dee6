"""The examples of docs/agents.md run."""

from __future__ import annotations

import re

import pytest

from tests.support.servers.server_processes import ROOT

PAGE = ROOT / "docs" / "agents.md"


@pytest.mark.usefixtures("_own_providers")
def test_the_python_blocks_of_the_page_run_in_order() -> None:
    text = PAGE.read_text()
    names: dict[str, object] = {"__name__": "documented"}
    for match in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        exec(compile("\n" * line + match[1], str(PAGE), "exec", dont_inherit=True), names)

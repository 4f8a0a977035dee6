"""Token estimates compared with a tokenizer from npm, which has to be fetched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.shelf.many import make_tools
from tests.support.system.requires import lack
from toolcrib.catalog.tokens import estimate
from toolcrib.validation import codec

SOAK = pytest.mark.skipif(not os.environ.get("TOOLCRIB_SOAK"), reason="a long test: python dev.py soak")
ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "gpt-tokenizer@4.0.0"
COUNT = """
import { readFileSync } from "node:fs";
import { encode } from "gpt-tokenizer/encoding/o200k_base";
const texts = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
"""


def count(texts: list[str], folder: Path) -> list[int]:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        lack("npm and Node.js, which bring and run a tokenizer, are not on this machine")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "count.js").write_text(COUNT)
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        lack(f"npm could not bring {PACKAGE}: {' '.join(done.stderr.split())[:200]}")
    said = subprocess.run(
        [node, "count.js"], cwd=folder, input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    counted: list[int] = json.loads(said.stdout)
    return counted


@SOAK
def test_estimates_are_near_what_a_tokenizer_counts(tmp_path: Path) -> None:
    tools = [
        codec.write([tool.name, tool.description, tool.input_schema]).decode() for tool in make_tools(500)
    ]
    pages = [path.read_text() for path in sorted(ROOT.glob("docs/*.md"))]
    code = [path.read_text() for path in sorted(ROOT.glob("src/toolcrib/*.py"))]
    counted = count([*tools, *pages, *code], tmp_path)
    for texts in (tools, pages, code):
        true, counted = counted[: len(texts)], counted[len(texts) :]
        guessed = [estimate(text) for text in texts]
        assert abs(sum(guessed) / sum(true) - 1) < 0.07
        errors = sorted(abs(guess / tokens - 1) for guess, tokens in zip(guessed, true, strict=True))
        assert errors[len(errors) * 9 // 10] < 0.15

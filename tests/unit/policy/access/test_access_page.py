"""The examples of docs/access.md do what the page says."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from toolcrib.cli import app

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "access.md").read_text()


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}[^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "toolcrib.toml").write_text(block("toml"))
    (tmp_path / "shop.py").write_text(block("python"))
    return tmp_path


def run(*words: str) -> Result:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, SystemExit | None)
    return done


@pytest.mark.usefixtures("shop")
def test_the_policy_of_the_page_is_in_order() -> None:
    assert run("check").exit_code == 0


@pytest.mark.usefixtures("shop")
def test_every_command_of_the_page_prints_what_stands_below_it() -> None:
    pieces = re.split(r"^\$ toolcrib ", block("console"), flags=re.MULTILINE)[1:]
    assert len(pieces) == 4
    for piece in pieces:
        command, _, expected = piece.partition("\n")
        assert run(*shlex.split(command)).stdout == expected

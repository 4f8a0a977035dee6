"""Resources and prompts of a running server, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers.serve_process import Serving

from .conftest import SHOP, CommandLine


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("served")
    (folder / "shop.py").write_text(SHOP)
    with Serving("shop.py", cwd=folder) as serving:
        yield serving.address


def test_they_are_listed_as_local_ones_are(cli: CommandLine, address: str) -> None:
    cli.write("shop.py", SHOP)
    here, there = cli.run("list", "shop.py"), cli.run("list", address)
    assert (there.exit_code, here.exit_code) == (0, 0)
    assert there.stdout.split("PROMPT")[0] == here.stdout.split("PROMPT")[0]
    assert there.stdout.splitlines()[-1] == "thank     Thank somebody           who: string"
    document = cli.json("list", address, "--json")
    assert document.keys() == cli.json("list", "shop.py", "--json").keys()
    assert document["prompts"][1]["source"] == {"file": address, "line": None}
    names = cli.json("list", address, "--json", "--include", "prompt:*")
    assert (names["tools"], len(names["prompts"]), "resources" in names) == ([], 2, False)


def test_one_is_shown_by_its_uri_or_name(cli: CommandLine, address: str) -> None:
    shown = cli.run("show", "-t", address, "orders://17/invoice").stdout
    assert shown.splitlines()[0] == "orders://{number}/invoice"
    assert "Kind     template\n" in shown
    assert "Number of the order (integer)" in cli.run("show", "-t", address, "complain").stdout
    assert "Kind     prompt\n" in cli.run("show", "-t", address, "prompt:complain").stdout
    assert cli.json("show", "-t", address, "shop://logo", "--json")["mimeType"] == "image/png"
    done = cli.run("show", "-t", address, "complian")
    text = "error: Unknown tool or prompt: complian\nhint: did you mean 'complain'?\n"
    assert (done.exit_code, done.stderr) == (2, text)
    assert "did you mean 'shop://logo'?" in cli.run("show", "-t", address, "shop://lgo").stderr


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-06-18"])
def test_a_resource_is_read(cli: CommandLine, address: str, protocol: str) -> None:
    words = ("read", "-t", address, "--protocol", protocol)
    assert cli.run(*words, "orders://17/invoice").stdout == "# Invoice 17"
    assert cli.run(*words, "shop://logo").stdout_bytes == b"\x89PNG\x00\xff"
    logo = {"uri": "shop://logo", "mimeType": "image/png", "blob": "iVBORwD/"}
    assert cli.json(*words, "shop://logo", "--json") == {"contents": [logo]}
    done = cli.run(*words, "shop://lgo")
    text = "error: Resource not found: shop://lgo\nhint: did you mean 'shop://logo'?\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", text)
    done = cli.run(*words, "orders://x/invoice")
    assert (done.exit_code, "expected integer" in done.stderr, "hint" in done.stderr) == (1, True, False)


def test_a_prompt_is_got(cli: CommandLine, address: str) -> None:
    words = ("prompt", "-t", address)
    assert cli.run(*words, "thank", "who=Ana").stdout == "Thank Ana.\n"
    assert "firm complaint about order 3" in cli.run(*words, "complain", "order:=3", "tone=firm").stdout
    assert cli.json(*words, "thank", "who=Bo", "--json")["description"] == "Thank somebody"
    done = cli.run(*words, "complain")
    assert (done.exit_code, "'order': required, but missing" in done.stderr) == (1, True)
    assert done.stderr.endswith("hint: parameters: order: string, tone?: string\n")
    done = cli.run(*words, "complian")
    text = "error: Unknown prompt: complian\nhint: did you mean 'complain'?\n"
    assert (done.exit_code, done.stderr) == (2, text)

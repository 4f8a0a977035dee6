"""The examples in the documents run."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.architecture import render_tree
from toolcrib.cli import COMMANDS, app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "docs/guide.md",
    "docs/access.md",
    "docs/serving.md",
    "docs/coming-from.md",
    "docs/catalog.md",
    "docs/exporting.md",
    "docs/limits.md",
    "docs/locking.md",
    "docs/oauth.md",
    "docs/scanning.md",
    "docs/searching.md",
    "docs/telemetry.md",
]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES)
def test_the_python_blocks_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    names: dict[str, object] = {"__name__": "documented"}
    for match in _BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        source = "\n" * line + match[1]
        exec(compile(source, str(ROOT / page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


def test_the_first_example_of_the_readme_passes_check_without_advice(tmp_path: Path) -> None:
    example = _BLOCK.findall((ROOT / "README.md").read_text())[0]
    (tmp_path / "shop.py").write_text(example)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "shop.py")])
    assert done.stdout.endswith("6 tools ok, 2 off; no problems.\n")


def test_the_figures_of_the_readme_are_those_of_the_bench() -> None:
    measured = (ROOT / "README.md").read_text().partition("## Measured")[2].partition("\n## ")[0]
    results = (ROOT / "bench/README.md").read_text().partition("## Results")[2]
    ratios = [float(word) for word in re.findall(r"([\d.]+)x ", results)]
    stated = re.findall(r"([\d.]+)(?: and ([\d.]+))? times less", measured)
    claims = [claim for pair in stated for claim in pair if claim]
    assert len(claims) == 10
    for claim in claims:
        digits = len(claim.partition(".")[2])
        assert float(claim) in [round(ratio, digits) for ratio in ratios], f"{claim} times: no such row"


def test_the_table_of_commands_names_the_arguments_and_options_that_they_take() -> None:
    table = re.findall(r"^\| `toolcrib (\w+)(.*?)` \|", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    assert {name for name, _ in table} == {*COMMANDS}
    for name, usage in table:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        if isinstance(command, click.Group):
            assert {*re.findall(r"\w+", usage)} == {*command.commands}
            continue
        context = click.Context(command)
        options = {word for param in command.params for word in param.opts}
        assert {*re.findall(r"--?[a-z]+", usage)} <= options
        words = re.sub(r"-t TARGET|--[a-z]+ [A-Z]+|--[a-z]+", "", usage)
        taken = " ".join(
            param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)
        )
        assert re.findall(r"[A-Z=]+", words) == re.findall(r"[A-Z=]+", taken), name


def test_the_map_lists_every_module_with_its_subject() -> None:
    assert render_tree() in (ROOT / "docs/architecture.md").read_text(), "run: python dev.py map"


def test_the_paths_of_the_map_exist() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    table = page[page.index("## Where to change what") :]
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", table))
    assert [path for path in named if not (ROOT / "src/toolcrib" / path).exists()] == ["tests/unit/"]

"""The examples in the documents run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from bench import reference
from bench.architecture import render_tree
from tests.support.docs.pages import Page
from toolcrib.cli import COMMANDS, app

ROOT = Path(__file__).resolve().parents[2]
RUN_ELSEWHERE = {
    "docs/agents.md",  # tests/agents/test_docs_page.py
    "docs/extending.md",  # test_extending.py
}
PAGES = [
    "README.md",
    *sorted(
        str(path.relative_to(ROOT))
        for path in ROOT.glob("docs/**/*.md")
        if re.search("^```(?:python|console)", path.read_text(), re.MULTILINE)
    ),
]
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RUN_ELSEWHERE])
def test_the_blocks_of_a_page_run_in_order_and_print_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = set(sys.modules)
    try:
        Page(ROOT / page, tmp_path).run()
    finally:
        for name in set(sys.modules) - modules:  # the next page has a shop.py of its own
            if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda p: p.name
)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    made = {ROOT / "docs/reference" / name for name in reference.PAGES}
    found = {(page.parent / link).resolve() for link in _LINK.findall(page.read_text())}
    assert [path for path in found - made if not path.exists()] == []


def test_only_one_page_says_how_toolcrib_itself_is_installed() -> None:
    # `pip install 'toolcrib[auth]'` adds an extra to whatever is installed; a bare name needs a release.
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    bare = re.compile(r"pip install (?:-\S+ )*toolcrib\b")
    assert {page.name for page in pages if bare.search(page.read_text())} == {"install.md", "releasing.md"}


def test_the_first_example_of_the_readme_passes_check_without_advice(tmp_path: Path) -> None:
    example = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "shop.py").write_text(example)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "shop.py")])
    assert done.stdout.endswith("6 tools ok, 2 off; no problems.\n")


def test_the_figures_of_the_readme_are_those_of_the_bench() -> None:
    measured = (ROOT / "README.md").read_text().partition("## Measured")[2].partition("\n## ")[0]
    results = (ROOT / "bench/README.md").read_text().partition("## Results")[2]
    ratios = [float(word) for word in re.findall(r"([\d.]+)x ", results)]
    stated = re.findall(r"([\d.]+)(?: and ([\d.]+))? times less", measured)
    claims = [claim for pair in stated for claim in pair if claim]
    assert len(claims) == 6
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


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a language in all pages, each with its page and line."""
    pattern = re.compile(rf"^```{language}[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        (f"{page.relative_to(ROOT)}:{text[: match.start()].count(chr(10)) + 1}", match[1])
        for page in sorted(ROOT.glob("docs/**/*.md"))
        for text in [page.read_text()]
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize(
    ("language", "parse"), [("yaml", lambda text: list(yaml.safe_load_all(text))), ("json", json.loads)]
)
def test_files_of_other_programs_can_be_parsed(language: str, parse: Callable[[str], object]) -> None:
    found = blocks(language)
    assert found
    for place, text in found:
        assert parse(text), place


def test_the_unit_of_systemd_is_valid(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    [(_, text)] = blocks("ini")
    unit = tmp_path / "shop.service"
    unit.write_text(re.sub(r"/srv/shop/\.venv/bin/toolcrib", sys.executable, text))
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "shop.service" in line] == []

"""Extracting files of commits: nothing outside the folder, and no filters or hooks."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tests.support.system.repository import Repository as Made
from toolcrib.cli import git as command
from toolcrib.cli.git import Repository
from toolcrib.errors import ConfigurationError


@pytest.fixture
def made(tmp_path: Path) -> Made:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Made(folder)


def extract(made: Made, commit: str, into: Path) -> dict[str, str]:
    into.mkdir()
    Repository.around(made.folder).extract(commit, into, PurePosixPath("."))
    return {str(path.relative_to(into)): path.read_text() for path in into.rglob("*") if path.is_file()}


def test_a_commit_is_read_as_it_was_and_not_as_the_working_tree_is(made: Made, tmp_path: Path) -> None:
    first = made.commit(tools="old = 1\n", shop__more="more = 1\n")
    made.commit(tools="new = 1\n")
    made.write("tools.py", "newest = 1\n")
    assert extract(made, first, tmp_path / "out") == {"tools.py": "old = 1\n", "shop/more.py": "more = 1\n"}


def test_attributes_and_filters_of_the_repository_are_ignored(made: Made, tmp_path: Path) -> None:
    made.write(".gitattributes", "hidden.py export-ignore\ntools.py filter=trap export-subst\n")
    made.git("config", "filter.trap.smudge", f"touch {tmp_path / 'trace'}; cat")
    commit = made.commit(tools="v = '$Format:%H$'\n", hidden="x = 1\n")
    (tmp_path / "trace").unlink(missing_ok=True)
    assert extract(made, commit, tmp_path / "out") == {
        "tools.py": "v = '$Format:%H$'\n",
        "hidden.py": "x = 1\n",
    }
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_names_that_lead_out_of_the_folder_are_left_out(made: Made, tmp_path: Path, name: str) -> None:
    blob = made.git("hash-object", "-w", "--stdin", data=b"x = 1\n")
    inner = made.git("mktree", data=f"100644 blob {blob}\tescaped.py\n".encode())
    tree = made.git(
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--stdin",
        "--literally",
        data=b"40000 %b\0" % name.encode() + bytes.fromhex(inner),
    )
    commit = made.git("commit-tree", tree, "-m", "hostile")
    assert extract(made, commit, tmp_path / "out") == {}
    assert not (tmp_path / "escaped.py").exists()


def test_too_many_files_are_refused_unless_a_folder_is_named(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_FILES", 2)
    commit = made.commit(a="", b="", shop__c="", shop__d="")
    found = Repository.around(made.folder)
    (tmp_path / "out").mkdir()
    assert found.extract(commit, tmp_path / "out", PurePosixPath("shop")) == 2
    with pytest.raises(ConfigurationError, match="more than 2 files"):
        found.extract(commit, tmp_path / "out", PurePosixPath("."))


def test_names_of_commits_are_names_and_never_options(made: Made) -> None:
    commit = made.commit(tools="")
    found = Repository.around(made.folder)
    assert found.find_commit("main") == found.find_commit("HEAD") == found.find_commit(commit[:8]) == commit
    assert found.find_commit("--all") is None
    assert found.find_commit("nowhere") is None
    assert found.find_commit("") is None


def test_the_current_folder_is_relative_to_the_root(made: Made) -> None:
    made.commit(shop__tools="")
    assert Repository.around(made.folder / "shop").here == PurePosixPath("shop")
    assert Repository.around(made.folder).here == PurePosixPath(".")


def test_a_folder_outside_of_a_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not in a git repository"):
        Repository.around(tmp_path)


def test_a_missing_git_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="git is not installed"):
        Repository.around(tmp_path)

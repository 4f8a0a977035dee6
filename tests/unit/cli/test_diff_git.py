"""Extracting files of commits: nothing outside the folder, and no filters or hooks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tests.support.system.repository import Repository
from toolcrib.cli import git as command
from toolcrib.cli.git import Commit
from toolcrib.errors import ConfigurationError


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    folder = tmp_path / "repository"
    folder.mkdir()
    return Repository(folder)


def find(made: Repository, text: str) -> Commit:
    found = Commit.find(text, made.folder)
    assert found is not None
    return found


def extract(made: Repository, commit: str, into: Path) -> dict[str, str]:
    into.mkdir()
    find(made, commit).extract(into)
    return {str(path.relative_to(into)): path.read_text() for path in into.rglob("*") if path.is_file()}


def test_a_commit_is_read_as_it_was_and_not_as_the_working_tree_is(made: Repository, tmp_path: Path) -> None:
    first = made.commit(tools="old = 1\n", shop__more="more = 1\n")
    made.commit(tools="new = 1\n")
    made.write("tools.py", "newest = 1\n")
    assert extract(made, first, tmp_path / "out") == {"tools.py": "old = 1\n", "shop/more.py": "more = 1\n"}


def test_attributes_and_filters_of_the_repository_are_ignored(made: Repository, tmp_path: Path) -> None:
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
def test_names_that_lead_out_of_the_folder_are_left_out(made: Repository, tmp_path: Path, name: str) -> None:
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
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_FILES", 2)
    commit = made.commit(a="", b="", shop__c="", shop__d="")
    (tmp_path / "out").mkdir()
    assert find(made, f"{commit}:shop").extract(tmp_path / "out") == 2
    with pytest.raises(ConfigurationError, match="more than 2 files"):
        find(made, commit).extract(tmp_path / "out")


def test_names_of_commits_are_names_and_never_options(made: Repository) -> None:
    commit = made.commit(tools="")
    assert {find(made, name).hash for name in ("main", "HEAD", commit[:8])} == {commit}
    for name in ("--all", "nowhere", ""):
        assert Commit.find(name, made.folder) is None


def test_the_current_folder_is_relative_to_the_root(made: Repository) -> None:
    made.commit(shop__tools="")
    assert Commit.find("HEAD:a", made.folder / "shop") == replace(
        find(made, "HEAD:a"), here=PurePosixPath("shop")
    )


def test_there_is_no_commit_outside_of_a_repository_or_without_git(
    made: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.commit(tools="")
    assert Commit.find("HEAD", tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Commit.find("HEAD", made.folder) is None

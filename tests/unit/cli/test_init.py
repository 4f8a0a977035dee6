"""`toolcrib init`: the project it writes works, and nothing is overwritten."""

from __future__ import annotations

import json

from .conftest import CommandLine


def test_a_new_project_has_no_problems_and_passes_its_own_test(cli: CommandLine) -> None:
    done = cli.run("init")
    assert (done.exit_code, done.stdout.split()) == (0, ["tools.py", "toolcrib.toml", "test_tools.py"])
    assert json.loads(cli.run("check", "--strict", "--json").stdout)["findings"] == []
    names: dict[str, object] = {}
    exec((cli.folder / "test_tools.py").read_text(), names)
    names["test_a_note_is_kept_and_found"]()  # type: ignore[operator]
    names["test_no_arguments_crash_a_tool"]()  # type: ignore[operator]


def test_a_folder_is_made_and_names_the_server(cli: CommandLine) -> None:
    done = cli.run("init", "my notes", "--json")
    assert json.loads(done.stdout) == {
        "folder": "my notes",
        "files": ["tools.py", "toolcrib.toml", "test_tools.py"],
    }
    assert 'name = "my-notes"' in (cli.folder / "my notes" / "toolcrib.toml").read_text()


def test_no_file_is_overwritten(cli: CommandLine) -> None:
    cli.write("tools.py", "mine")
    done = cli.run("init")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: tools.py already exists in .\nhint: name another folder\n",
    )
    assert not (cli.folder / "toolcrib.toml").exists()
    assert (cli.folder / "tools.py").read_text() == "mine"

"""`toolcrib connect`: the command line and the files it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import ADD, CommandLine

URL = "http://127.0.0.1:8000/mcp"
_VARIABLES = (
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
    "VSCODE_PORTABLE",
    "VSCODE_APPDATA",
    "GEMINI_CLI_HOME",
    "CODEX_HOME",
    "GOOSE_PATH_ROOT",
)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without clients: no test may find or change a real one."""
    folder = tmp_path_factory.mktemp("home")
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(folder))
    for variable in _VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def cursor(home: Path) -> Path:
    return home / ".cursor" / "mcp.json"


def servers(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())["mcpServers"]
    return found


def targets_of(entry: dict[str, Any]) -> list[str]:
    args: list[str] = entry["args"]
    return args[args.index("--stdio") + 1 :]


# --- entries ---------------------------------------------------------------------------------------


def test_the_toolcrib_toml_of_the_folder_is_connected_under_its_name(cli: CommandLine, cursor: Path) -> None:
    path = cli.write("toolcrib.toml", '[server]\nname = "my desk"\ntargets = ["tools.py"]\n')
    cli.run("connect", "cursor")
    assert targets_of(servers(cursor)["my-desk"]) == [str(path)]


def test_files_become_absolute_and_modules_get_a_pythonpath(cli: CommandLine, cursor: Path) -> None:
    cli.write("tools.py", ADD)
    cli.write("other/__init__.py", "")
    cli.write("other/module.py", ADD)
    cli.write("kit/more.py", ADD)
    cli.run("connect", "cursor", "./tools.py", "other.module", "kit", "tools.py:add")
    entry = servers(cursor)["tools"]
    here = str(cli.folder)
    assert targets_of(entry) == [f"{here}/tools.py", "other.module", f"{here}/kit", f"{here}/tools.py:add"]
    assert entry["env"] == {"PYTHONPATH": here}


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        (["my_tools.py"], "my-tools"),
        (["my_tools.py:add"], "my-tools"),
        (["kit/"], "kit"),
        (["json.decoder"], "json-decoder"),
        (["json:loads"], "json"),
        (["my_tools.py", "desk.toml"], "the-desk"),
        (["nameless.toml"], "nameless"),
    ],
)
def test_the_name_is_the_one_of_the_first_target(
    cli: CommandLine, cursor: Path, targets: list[str], name: str
) -> None:
    cli.write("my_tools.py", ADD)
    cli.write("kit/more.py", ADD)
    cli.write("desk.toml", '[server]\nname = "the desk"\n')
    cli.write("nameless.toml", '[server]\ntargets = ["my_tools.py"]\n')
    assert cli.run("connect", "cursor", *targets).exit_code == 0
    assert list(servers(cursor)) == [name]


def test_a_key_and_headers_are_written_as_each_client_expects_them(cli: CommandLine, home: Path) -> None:
    options = ("--url", URL, "--name", "shop", "--header", "X-Team: sales", "--key")
    headers = {"X-Team": "sales", "Authorization": "Bearer tck_1"}
    for client in ("claude-code", "cursor", "vscode", "gemini", "codex"):
        assert cli.run("connect", client, *options, "tck_1").exit_code == 0
    assert servers(home / ".claude.json")["shop"] == {"type": "http", "url": URL, "headers": headers}
    assert servers(home / ".cursor/mcp.json")["shop"] == {"url": URL, "headers": headers}
    assert servers(home / ".gemini/settings.json")["shop"] == {"httpUrl": URL, "headers": headers}
    codex = tomllib.loads((home / ".codex/config.toml").read_text())["mcp_servers"]["shop"]
    assert codex == {"url": URL, "http_headers": headers}
    again = cli.run("connect", "cursor", *options, "-", stdin="tck_1\n")
    assert "already connected" in again.stderr
    other = cli.run("connect", "cursor", *options, "tck_2")
    assert other.exit_code == 1
    assert "tck_" not in other.output
    assert cli.run("connect", "cursor", *options, "tck_2", "--force").exit_code == 0
    assert servers(home / ".cursor/mcp.json")["shop"]["headers"]["Authorization"] == "Bearer tck_2"
    assert "already connected" in cli.run("connect", "cursor", "--url", URL, "--name", "shop").stderr


def test_a_server_with_auth_is_warned_about(cli: CommandLine, cursor: Path) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\ntargets = ["tools.py"]\n[auth]\nkeys = "keys.json"\n')
    started = cli.run("connect", "cursor")
    assert started.exit_code == 0
    assert "warning: toolcrib.toml has [auth], but a server that the client starts asks for no key" in (
        started.stderr
    )
    assert "its caller is 'local'" in started.stderr
    bare = cli.run("connect", "cursor", "--url", URL, "--name", "bare")
    assert "warning: toolcrib.toml has [auth]: the server will refuse this client with 401" in bare.stderr
    assert "hint: add --key KEY" in bare.stderr
    elsewhere = cli.run("connect", "cursor", "--url", "https://example.com/mcp", "--name", "far")
    keyed = cli.run("connect", "cursor", "--url", URL, "--name", "keyed", "--key", "tck_1")
    assert "warning" not in elsewhere.stderr + keyed.stderr


def test_the_next_step_for_gemini_names_trusted_folders(cli: CommandLine, home: Path) -> None:
    for scope in ("user", "project"):
        done = cli.run("connect", "gemini", "--scope", scope, "--samples")
        assert "unless the folder is not trusted: /permissions changes that" in done.stderr


def test_environment_variables_are_in_the_entry(cli: CommandLine, cursor: Path) -> None:
    cli.run("connect", "cursor", "--samples", "--name", "toolcrib", "--env", "A=b=c", "--env", "EMPTY=")
    assert servers(cursor)["toolcrib"]["env"] == {"A": "b=c", "EMPTY": ""}


def test_the_command_in_the_entry_runs(
    cli: CommandLine, cursor: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cli.write("tools.py", ADD)
    cli.run("connect", "cursor", "tools.py")
    entry = servers(cursor)["tools"]
    words = [entry["command"], *entry["args"]]
    at = words.index("serve")
    done = subprocess.run(
        [*words[:at], "list", *targets_of(entry), "--json"],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["add"]


# --- files -----------------------------------------------------------------------------------------


def test_scope_project_uses_the_file_of_the_project(cli: CommandLine, home: Path) -> None:
    done = cli.run(
        "connect", "claude-code", "--samples", "--name", "toolcrib", "--scope", "project", "--env", "TOKEN=x"
    )
    assert "warning: the values of TOKEN are in a file shared with the project" in done.stderr
    assert "toolcrib" in servers(cli.folder / ".mcp.json")
    assert (cli.folder / ".mcp.json").stat().st_mode == cli.write("plain", "").stat().st_mode
    assert not (home / ".claude.json").exists()


def test_print_writes_nothing(cli: CommandLine, cursor: Path) -> None:
    done = cli.run("connect", "cursor", "--print", "--url", URL)
    assert json.loads(done.stdout) == {"mcpServers": {"toolcrib": {"url": URL}}}
    assert done.stderr == f"note: add this to {cursor}, below 'mcpServers'\n"
    assert not cursor.exists()
    assert (
        cli.run("connect", "codex", "--print", "--url", URL).stdout
        == f'[mcp_servers.toolcrib]\nurl = "{URL}"\n'
    )
    report = cli.json("connect", "cursor", "--print", "--url", URL, "--json")
    assert (report["state"], report["entry"]) == ("printed", {"url": URL})


# --- existing -----------------------------------------------------------------------------------------


def test_a_url_without_a_path_is_warned_about(cli: CommandLine, cursor: Path) -> None:
    done = cli.run("connect", "cursor", "--url", "http://127.0.0.1:8000")
    assert done.exit_code == 0
    assert "toolcrib serve uses /mcp" in done.stderr


# --- removal ---------------------------------------------------------------------------------------


def test_a_connected_server_is_removed(cli: CommandLine, cursor: Path) -> None:
    tools = cli.write("tools.py", ADD)
    cli.run("connect", "cursor", "tools.py")
    tools.unlink()
    done = cli.run("connect", "cursor", "tools.py", "--remove")
    assert (done.exit_code, servers(cursor)) == (0, {})
    assert done.stderr == f"note: removed 'tools' from {cursor}\nhint: restart Cursor\n"
    done = cli.run("connect", "cursor", "tools.py", "--remove")
    assert (done.exit_code, done.stderr) == (0, f"note: not connected: no 'tools' in {cursor}\n")
    assert cli.json("connect", "cursor", "--remove", "--json")["state"] == "not-connected"


def test_an_entry_of_another_server_is_not_removed(cli: CommandLine, cursor: Path) -> None:
    cursor.parent.mkdir()
    cursor.write_text('{"mcpServers": {"my_docs": {"url": "https://docs.example/mcp"}}}')
    done = cli.run("connect", "cursor", "--remove", "--name", "my_docs")
    assert done.exit_code == 1
    assert "does not look like a toolcrib server" in done.stderr
    assert "https://docs.example/mcp" in done.stderr
    assert list(servers(cursor)) == ["my_docs"]
    done = cli.run("connect", "cursor", "--remove", "--name", "my_docs", "--url", "https://docs.example/mcp")
    assert (done.exit_code, servers(cursor)) == (0, {})


# --- list --------------------------------------------------------------------------------------------


def test_list_shows_clients_and_their_toolcrib_servers(cli: CommandLine, cursor: Path, home: Path) -> None:
    cli.run("connect", "cursor", "--samples", "--name", "shop")
    cli.run("connect", "gemini", "--url", URL)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("broken =")
    done = cli.run("connect", "--list")
    assert done.exit_code == 0
    rows = [line.split(maxsplit=4) for line in done.stdout.splitlines()]
    assert rows[0] == ["CLIENT", "FOUND", "SCOPE", "TOOLCRIB", "FILE"]
    assert ["cursor", "yes", "user", "shop", str(cursor)] in rows
    assert ["cursor", "yes", "project", "-", ".cursor/mcp.json"] in rows
    place = f"(at 127.0.0.1:8000)  {home}/.gemini/settings.json"
    assert ["gemini", "yes", "user", "toolcrib", place] in rows
    assert ["claude-code", "no", "user", "-", str(home / ".claude.json")] in rows
    assert ["codex", "yes", "user", "unreadable", str(home / ".codex/config.toml")] in rows
    assert f"warning: {home}/.codex/config.toml:1: not valid TOML" in done.stderr


def test_list_shows_the_host_of_entries_with_a_url(cli: CommandLine, home: Path) -> None:
    cli.run("connect", "gemini", "--url", "https://tools.example.com/mcp/key-1234", "--name", "far")
    [gemini] = cli.json("connect", "gemini", "--list", "--json")["clients"]
    assert gemini["files"][0]["servers"] == ["far (at tools.example.com)"]


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([], "Missing argument 'CLIENT'", "claude-desktop, claude-code, cursor"),
        (["cursr"], "Unknown client: cursr", "did you mean 'cursor'?"),
        (["claude-desktop", "--url", URL], "does not support URLs", "omit --url"),
        (["cursor", "--key", "tck_1"], "--key and --header require --url", "needs no key"),
        (["cursor", "--url", URL, "--header", "bad"], "--header must be 'NAME: VALUE'", "--header 'Auth"),
        (["cursor", "--url", URL, "--key", " "], "The key is empty", "--key -"),
        (["cursor", "--url", URL, "--key", "a\nb"], "Invalid header 'Authorization'", "on one line"),
        (
            ["cursor", "--url", URL, "--key", "k", "--header", "authorization: Basic x"],
            "--key cannot be combined with --header 'Authorization: ...'",
            "drop one",
        ),
        (["claude-desktop", "--scope", "project"], "no project configuration", "omit --scope project"),
        (["cursor", "nope.py"], "No such file: nope.py", ""),
        (["cursor", "nope.py:add"], "No such file: nope.py", ""),
        (["cursor", "no.such"], "No such file, folder or module: no.such", ""),
        (["cursor", "nope.toml"], "No such file: nope.toml", ""),
        (["cursor", URL], "is a URL", f"--url {URL}"),
        (["cursor", "--url", "127.0.0.1"], "Invalid server URL", "http://127.0.0.1:8000/mcp"),
        (["cursor", "x.py", "--url", URL], "--url cannot be combined with x.py", ""),
        (["cursor", "--env", "A=b", "--url", URL], "--env cannot be combined with --url", "set it"),
        (["cursor", "--env", "A"], "--env must be KEY=VALUE", ""),
        (["cursor", "--samples", "--name", "my_tools"], "Invalid server name", "my-tools"),
        (["cursor", "--file", "x", "--scope", "user"], "--file cannot be combined with --scope", ""),
        (["cursor", "--print", "--remove"], "--print cannot be combined with --remove", ""),
    ],
)
def test_invalid_usage_is_reported_with_a_hint(
    cli: CommandLine, home: Path, words: list[str], error: str, hint: str
) -> None:
    done = cli.run("connect", *words)
    assert done.exit_code == 2
    first, *rest = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert hint in "".join(rest)
    assert list(home.iterdir()) == []


def test_a_broken_file_is_reported_with_its_line_and_unchanged(cli: CommandLine, cursor: Path) -> None:
    cursor.parent.mkdir()
    cursor.write_text('{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}\n')
    before = cursor.read_bytes()
    for words in (
        ["connect", "cursor", "--samples"],
        ["connect", "cursor", "--samples", "--force"],
        ["connect", "cursor", "--remove"],
    ):
        done = cli.run(*words)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {cursor}:4: not plain JSON: expecting ',' delimiter")
        assert " by hand" in done.stderr
        assert cursor.read_bytes() == before


def test_a_broken_toolcrib_toml_is_reported(cli: CommandLine, cursor: Path) -> None:
    cli.write("toolcrib.toml", "[server]\nnam = 1\n")
    done = cli.run("connect", "cursor")
    assert done.exit_code == 2
    assert "toolcrib.toml:2" in done.stderr
    assert not cursor.exists()


def test_control_characters_are_printed_as_escapes(cli: CommandLine) -> None:
    cli.write("shop.py", "def stock() -> int:\n    'Count.'\n    return 1\n")
    given = ("shop.py", "--print", "--env", "A=\x9b")
    done = cli.run("connect", "cursor", *given)
    assert "\x9b" not in done.stdout
    assert json.loads(done.stdout)["mcpServers"]["shop"]["env"] == {"A": "\x9b"}
    assert 'A = "\\u009b"' in cli.run("connect", "codex", *given).stdout


# --- Goose and Windsurf ------------------------------------------------------------------------------


def test_the_entry_of_goose_is_printed_with_its_place(cli: CommandLine, home: Path) -> None:
    file = home / ".config" / "goose" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("extensions: {}\n")
    tools = cli.write("tools.py", ADD)
    done = cli.run("connect", "goose", "tools.py", "--name", "Shop", "--env", "DB=x y")
    assert done.exit_code == 0
    entry = yaml.safe_load(done.stdout)["extensions"]["shop"]
    assert (entry["args"][-1], entry["envs"]) == (str(tools), {"DB": "x y"})
    assert f"note: add this to {file}, below 'extensions'\n" in done.stderr
    removed = cli.run("connect", "goose", "--name", "shop", "--remove")
    assert removed.exit_code == 2
    assert f"hint: remove the entry below 'extensions' from {file}" in removed.stderr
    assert cli.json("connect", "--list", "goose", "--json")["clients"][0]["found"] is True
    assert file.read_text() == "extensions: {}\n"


# --- secrets ---------------------------------------------------------------------------------------

WITH_KEY = ("--url", URL, "--name", "shop", "--key", "tck_1")


def test_a_key_is_not_written_where_other_users_can_read_it(cli: CommandLine, cursor: Path) -> None:
    cursor.parent.mkdir()
    cursor.write_text("{}")
    cursor.chmod(0o640)
    refused = cli.run("connect", "cursor", *WITH_KEY)
    assert refused.exit_code == 2
    assert cursor.read_text() == "{}"
    assert f"Other users can read {cursor}, and the entry contains a secret header" in refused.stderr
    assert (
        f"hint: chmod 600 {cursor}, or refer to a variable: --header 'Authorization: Bearer ${{env:NAME}}'"
        in (refused.stderr)
    )
    variable = ("--header", "Authorization: Bearer ${env:SHOP_KEY}")
    assert cli.run("connect", "cursor", "--url", URL, "--name", "other", *variable).exit_code == 0
    cursor.chmod(0o600)
    assert cli.run("connect", "cursor", *WITH_KEY).exit_code == 0
    assert sorted(servers(cursor)) == ["other", "shop"]
    assert cursor.stat().st_mode & 0o777 == 0o600


def test_a_new_file_of_a_project_with_a_key_is_private(cli: CommandLine, home: Path) -> None:
    assert cli.run("connect", "cursor", "--scope", "project", *WITH_KEY).exit_code == 0
    assert (cli.folder / ".cursor/mcp.json").stat().st_mode & 0o777 == 0o600
    assert cli.run("connect", "claude-code", "--scope", "project", "--url", URL).exit_code == 0
    assert (cli.folder / ".mcp.json").stat().st_mode & 0o044


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "file"])
def test_a_link_of_a_checkout_does_not_lead_out_of_it(cli: CommandLine, home: Path, is_folder: bool) -> None:
    (cli.folder / ".git").mkdir()
    cli.write("work/tools.py", ADD)
    (home / "mcp.json").write_text("{}")
    (home / "mcp.json").chmod(0o600)
    link, target = (".cursor", home) if is_folder else (".cursor/mcp.json", home / "mcp.json")
    (cli.folder / link).parent.mkdir(exist_ok=True)
    (cli.folder / link).symlink_to(target)
    for words in (("tools.py",), WITH_KEY, ("--remove",)):
        done = cli.run("connect", "cursor", "--scope", "project", *words)
        assert done.exit_code == 2
        assert f"leads out of this project, to {home / 'mcp.json'}" in done.stderr
        assert f"hint: name that file: --file {home / 'mcp.json'}" in done.stderr
    assert (home / "mcp.json").read_text() == "{}"
    assert not (home / "mcp.json.bak").exists()


def test_a_link_inside_of_a_checkout_is_followed(cli: CommandLine, home: Path) -> None:
    (cli.folder / ".git").mkdir()
    cli.write("tools.py", ADD)
    (cli.folder / "shared").mkdir()
    (cli.folder / ".cursor").symlink_to(cli.folder / "shared")
    assert cli.run("connect", "cursor", "tools.py", "--scope", "project").exit_code == 0
    assert len(servers(cli.folder / "shared" / "mcp.json")) == 1


@pytest.mark.parametrize(
    "url", ["https://x.example/${env:SECRET}", "https://x.example/mcp?key=$SECRET", "https://x.example/${S"]
)
def test_a_url_contains_no_variable_of_the_client(cli: CommandLine, cursor: Path, url: str) -> None:
    done = cli.run("connect", "cursor", "--url", url)
    assert done.exit_code == 2
    assert "The server URL contains the variable $" in done.stderr
    assert "hint: clients would send its value to the host; use --header" in done.stderr
    assert not cursor.exists()

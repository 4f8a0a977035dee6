"""Targets, and the settings of `toolcrib.toml`."""

from __future__ import annotations

import io

import pytest

from toolcrib.cli.load import load_for_serving
from toolcrib.cli.output import Terminal

from .conftest import ADD, CommandLine

SAMPLES = '[server]\ntargets = ["toolcrib.samples"]\n\n'


def names(cli: CommandLine, *arguments: str) -> list[str]:
    return [tool["name"] for tool in cli.json("list", "--json", *arguments)["tools"]]


@pytest.mark.parametrize(
    "target",
    ["kit/tools.py", "kit", "kit/", "kit.tools", "kit.tools:add", "kit/tools.py:add", "./kit/tools.py"],
)
def test_a_target_is_a_file_folder_module_or_object(cli: CommandLine, target: str) -> None:
    cli.write("kit/__init__.py", "")
    cli.write("kit/tools.py", ADD)
    assert names(cli, target) == ["add"]


def test_the_configuration_of_the_folder_is_the_default_target(cli: CommandLine) -> None:
    cli.write("tools.py", ADD)
    cli.write("toolcrib.toml", '[server]\nname = "shop"\ntargets = ["tools.py"]\nnamespace = "shop"\n')
    assert names(cli) == ["shop_add"]
    assert cli.run("call", "shop_add", "a=1").exit_code == 0


def test_targets_are_relative_to_the_configuration_file(cli: CommandLine) -> None:
    cli.write("far/tools.py", ADD)
    cli.write("far/faraway.py", ADD.replace("def add", "def more"))
    cli.write("far/toolcrib.toml", '[server]\ntargets = ["tools.py:add", "faraway"]\n')
    assert names(cli, "far/toolcrib.toml") == ["add", "more"]


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--port", "0"),
        ("serve", "--stdio"),
        ("check",),
        ("list",),
        ("show", "echo"),
        ("call", "echo", "message=x"),
        ("search", "echo"),
        ("check", "--static"),
        ("scan",),
        ("lock",),
        ("export", "--to", "openai"),
        ("explain", "echo"),
        ("connect", "cursor", "--print"),
    ],
    ids=" ".join,
)
def test_without_a_target_a_command_asks_for_one(cli: CommandLine, words: tuple[str, ...]) -> None:
    done = cli.run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: No target, and no toolcrib.toml in this folder\n"
        "hint: name a file, a folder or a module, or use --samples for the sample tools\n"
    )


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("check",), ("list",)], ids=" ".join)
def test_a_configuration_without_targets_is_not_enough(cli: CommandLine, words: tuple[str, ...]) -> None:
    cli.write("toolcrib.toml", '[server]\nname = "shop"\n')
    done = cli.run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: toolcrib.toml names no targets\n"
        'hint: write targets = ["tools.py"] under [server], or name targets on the command line\n'
    )


def test_the_environment_wins_over_the_file(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.write("toolcrib.toml", SAMPLES + "[tools]\nenable_math_tools = false\n")
    monkeypatch.setenv("TOOLCRIB_ENABLE_MATH_TOOLS", "1")
    assert "math_add" in names(cli)


def test_the_file_includes_and_excludes(cli: CommandLine) -> None:
    cli.write(
        "toolcrib.toml",
        SAMPLES + '[tools]\ninclude = ["*_*"]\nexclude = ["get_*", "tag:destructive"]\n',
    )
    done = cli.run("list")
    assert done.exit_code == 1
    assert "toolcrib.toml:6: tools.exclude: selector 'tag:destructive' matches no tool" in done.stderr
    cli.write(
        "toolcrib.toml",
        SAMPLES + '[tools]\ninclude = ["*_*"]\nexclude = ["get_*", "*_file*"]\n',
    )
    assert names(cli) == ["hello_world", "math_add", "debug_info"]


def test_a_time_limit_in_the_file_holds_for_tools_without_one(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", '[server]\ntargets = ["toolcrib.samples"]\ntimeout_s = 7\n')
    assert cli.json("show", "math_add", "--json")["timeout_s"] == 7


def test_a_budget_for_results_in_the_file_holds_for_tools_without_one(cli: CommandLine) -> None:
    cli.write(
        "toolcrib.toml", '[server]\ntargets = ["rows.py"]\nmax_result_tokens = 300\nlarge_results = "link"\n'
    )
    cli.write(
        "rows.py",
        "from toolcrib import tool\n@tool\ndef rows() -> list[int]:\n    return list(range(1000))\n",
    )
    result = cli.json("call", "rows", "--json")
    [cut] = result["_meta"]["toolcrib/shortened"]["arrays"]
    assert (cut["path"], cut["total"]) == ("structuredContent", 1000)
    assert result["structuredContent"] == list(range(cut["kept"]))
    assert len(result["content"]) == 2  # no link: the process has ended


def test_results_are_kept_by_a_process_that_serves_alone(cli: CommandLine) -> None:
    file = cli.write("toolcrib.toml", '[server]\ntargets = ["toolcrib.samples"]\nmax_result_tokens = 300\n')
    terminal = Terminal(io.StringIO(), io.StringIO(), debug=False)
    dispatcher = load_for_serving([str(file)], terminal).server.dispatcher
    assert (dispatcher.max_result_tokens, dispatcher.keeps_results) == (300, True)
    worker = load_for_serving([str(file)], terminal, keeps_sessions=False).server.dispatcher
    assert (worker.max_result_tokens, worker.keeps_results) == (300, False)


def test_a_missing_target_is_reported_with_its_line(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", '[server]\ntargets = ["gone.py", "tools.py"]\n')
    cli.write("tools.py", ADD)
    document = cli.json("check", "--json")
    assert [tool["name"] for tool in document["tools"]] == ["add"]
    assert [(finding["file"], finding["line"]) for finding in document["findings"]] == [("toolcrib.toml", 2)]


def test_a_switch_for_an_unknown_group_is_a_warning(cli: CommandLine) -> None:
    cli.write("toolcrib.toml", SAMPLES + "[tools]\nenable_maths_tools = true\n")
    document = cli.json("check", "--json")
    [finding] = document["findings"]
    assert (finding["code"], finding["level"], finding["line"]) == ("unused-switch", "warning", 5)
    assert "enable_math_tools" in finding["hint"]


def test_an_invalid_environment_variable_is_an_error(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_ENABLE_MATH_TOOLS", "perhaps")
    done = cli.run("list")
    assert done.exit_code == 2
    assert done.stderr == "error: TOOLCRIB_ENABLE_MATH_TOOLS: must be 1 or 0, got 'perhaps'\n"


@pytest.mark.parametrize(
    "target", ["gone.py", "gone/", "gone_module", "gone.toml", "notes.txt", "gone.py:add"]
)
def test_a_missing_target_exits_with_2(cli: CommandLine, target: str) -> None:
    cli.write("notes.txt", "no tools here")
    for command in ("check", "list"):
        done = cli.run(command, target)
        assert done.exit_code == 2
        assert done.stderr.startswith("error: ")
        assert target.split(":")[0].rstrip("/") in done.stderr
        assert done.stdout == ""


def test_the_tools_of_a_server_keep_their_names_and_versions(cli: CommandLine) -> None:
    cli.write(
        "srv.py",
        """
        from toolcrib import Application, MCPServer
        class Git(Application):
            def list_tools(self): return [self.create]
            def create(self, title: str) -> str: "Create an issue for me."
        server = MCPServer("mine", name_rule="mcp")
        server.add(Git(), namespace="git")
        @server.tool("dotted.name", version="1")
        def old() -> str: "An old one of these."
        @server.tool("dotted.name", version="2")
        def new() -> str: "A new one of these."
        """,
    )
    assert names(cli, "srv.py:server") == ["git_create", "dotted.name"]
    assert cli.json("show", "-t", "srv.py:server", "dotted.name@1", "--json")["description"].startswith(
        "An old"
    )


def test_the_same_name_in_a_server_and_a_file_is_a_duplicate(cli: CommandLine) -> None:
    cli.write("one.py", ADD)
    cli.write(
        "srv.py",
        "from toolcrib import MCPServer\nserver = MCPServer()\n" + ADD.replace("@tool", "@server.tool"),
    )
    document = cli.json("check", "one.py", "srv.py:server", "--json")
    assert [finding["code"] for finding in document["findings"]] == ["duplicate-name"]


GUARDED = '''
from toolcrib import MCPServer, ToolError

server = MCPServer("NAME")


@server.middleware
async def deny(call, next):
    raise ToolError("not allowed")


@server.tool
def NAME_tool() -> str:
    """Do something that is not allowed."""
    return "done"
'''


def test_middleware_of_a_server_runs_when_its_tool_is_called_by_a_command(cli: CommandLine) -> None:
    cli.write("a.py", GUARDED.replace("NAME", "a"))
    done = cli.run("call", "a_tool", "-t", "a.py")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not allowed" in done.stderr


def test_several_servers_are_refused_if_one_is_guarded(cli: CommandLine) -> None:
    cli.write("a.py", GUARDED.replace("NAME", "a"))
    cli.write("b.py", GUARDED.replace("NAME", "b").replace("@server.middleware", ""))
    done = cli.run("call", "a_tool", "-t", "a.py", "-t", "b.py")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "error: Several servers, of which one has a policy or middleware: a, b\nhint: use one target"
    )

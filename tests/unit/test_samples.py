"""The sample tools, as the documents describe them."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from toolcrib import MCPServer, Result, samples


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("samples", switches={"enable_file_tools": True})
    server.add(samples)
    return server


async def text(server: MCPServer, tool: str, /, **arguments: Any) -> str:
    result = await server.call(tool, arguments)
    assert not result.is_error, result.text
    return result.text


async def error(server: MCPServer, tool: str, /, **arguments: Any) -> str:
    result = await server.call(tool, arguments)
    assert result.is_error
    return result.text


@pytest.mark.requirement("T-18")
@pytest.mark.requirement("T-04")
def test_five_tools_are_on_and_the_file_tools_off() -> None:
    server = MCPServer()
    server.add(samples)
    assert [(tool.name, tool.description) for tool in server.list_tools()] == [
        ("hello_world", "A simple greeting tool"),
        ("echo", "Echo back the input message"),
        ("get_time", "Get current time in various formats"),
        ("math_add", "Add two numbers together"),
        ("debug_info", "Get debug information about the server"),
    ]


@pytest.mark.requirement("T-09")
@pytest.mark.parametrize(
    ("switches", "present", "absent"),
    [
        ({"enable_math_tools": False}, [], ["math_add", "read_file"]),
        ({"enable_file_tools": True}, ["math_add", "list_files", "read_file"], []),
    ],
)
def test_groups_are_switched(switches: dict[str, bool], present: list[str], absent: list[str]) -> None:
    server = MCPServer(switches=switches)
    server.add(samples)
    assert all(name in server.registry for name in ["hello_world", *present])
    assert not any(name in server.registry for name in absent)


@pytest.mark.requirement("T-17")
@pytest.mark.requirement("T-04")
def test_the_schemas_are_those_of_the_document(server: MCPServer) -> None:
    schemas = {tool.name: tool.input_schema for tool in server.list_tools()}
    assert schemas["hello_world"]["properties"] == {
        "name": {"type": "string", "description": "Name to greet (optional)", "default": "World"}
    }
    assert not schemas["hello_world"].get("required")
    assert schemas["math_add"] == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "First number"},
            "b": {"type": "number", "description": "Second number"},
        },
        "required": ["a", "b"],
    }


async def test_hello_world_greets(server: MCPServer) -> None:
    assert await text(server, "hello_world") == "Hello, World!"
    assert await text(server, "hello_world", name="Ada") == "Hello, Ada!"


async def test_echo_puts_its_prefix_before_the_message(server: MCPServer) -> None:
    assert await text(server, "echo", message="hi") == "Echo: hi"
    assert await text(server, "echo", message="hi", prefix="") == "hi"


@pytest.mark.parametrize(
    ("a", "b", "words", "total"),
    [
        (10, 5, "10 + 5 = 15", 15),
        (10.0, 5.0, "10 + 5 = 15", 15),
        (0.5, 0.25, "0.5 + 0.25 = 0.75", 0.75),
        (-1, 1, "-1 + 1 = 0", 0),
        (1e300, 0, "1e+300 + 0 = 1e+300", 1e300),
        (9007199254740991, 0, "9007199254740991 + 0 = 9007199254740991", 9007199254740991),
    ],
)
async def test_math_add_tells_the_sum_and_gives_it(
    server: MCPServer, a: float, b: float, words: str, total: float
) -> None:
    result: Result = await server.call("math_add", {"a": a, "b": b})
    assert (result.text, result.structured_content) == (words, total)
    assert server.registry.get("math_add").definition.output_schema == {
        "type": "number",
        "description": "The sum",
    }


async def test_a_sum_beyond_all_numbers_is_an_error_in_words(server: MCPServer) -> None:
    assert "too large" in await error(server, "math_add", a=1e308, b=1e308)


async def test_get_time_knows_three_formats_and_real_zones(server: MCPServer) -> None:
    iso = dt.datetime.fromisoformat(await text(server, "get_time"))
    assert iso.utcoffset() == dt.timedelta(0)
    now = dt.datetime.now(dt.UTC)
    assert abs((now - iso).total_seconds()) < 60
    assert abs(int(await text(server, "get_time", format="timestamp")) - now.timestamp()) < 60
    assert (await text(server, "get_time", format="readable")).endswith(" UTC")
    if zoneinfo.available_timezones():
        tokyo = dt.datetime.fromisoformat(await text(server, "get_time", timezone="Asia/Tokyo"))
        assert tokyo.utcoffset() == dt.timedelta(hours=9)


@pytest.mark.skipif(not zoneinfo.available_timezones(), reason="this machine has no time zone data")
@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("europe/berln", "Did you mean 'Europe/Berlin'?"),
        ("../../etc/passwd", "Use an IANA name"),
        ("", "Use an IANA name"),
        ("\x00", "Use an IANA name"),
        ("Mars Station", "IANA"),
    ],
)
async def test_a_zone_that_is_none_is_an_error_with_a_way_out(
    server: MCPServer, zone: str, hint: str
) -> None:
    assert hint in await error(server, "get_time", timezone=zone)


async def test_without_zone_data_utc_still_works(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        zoneinfo, "ZoneInfo", lambda _: (_ for _ in ()).throw(zoneinfo.ZoneInfoNotFoundError("x"))
    )
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    assert await text(server, "get_time", timezone="UTC")
    assert "tzdata" in await error(server, "get_time", timezone="Europe/Berlin")


async def test_debug_info_tells_of_its_server(server: MCPServer) -> None:
    await server.call("hello_world")
    facts = (await server.call("debug_info")).structured_content
    assert facts["name"] == "samples"
    assert facts["uptime_s"] >= 0
    assert facts["requests"] == 2
    assert "math_add" in facts["tools"]
    assert facts["statistics"]["hello_world"]["calls"] == 1
    brief = (
        await server.call("debug_info", {"include_tools": False, "include_stats": False})
    ).structured_content
    assert brief.keys().isdisjoint({"tools", "statistics"})


# --- files -----------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "shared"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("words ü")
    (root / "sub" / "b.txt").write_text("more")
    (root / "raw.bin").write_bytes(b"\x00\x01")
    (root / "latin.txt").write_bytes(b"\xe4\xf6")
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setenv("TOOLCRIB_FILES_ROOT", str(root))
    return root


async def test_files_are_listed_by_name_and_folders_have_a_slash(server: MCPServer, root: Path) -> None:
    assert (await server.call("list_files")).structured_content == ["a.txt", "latin.txt", "raw.bin", "sub/"]
    assert (await server.call("list_files", {"folder": "sub"})).structured_content == ["b.txt"]


async def test_a_text_file_is_read(server: MCPServer, root: Path) -> None:
    assert await text(server, "read_file", path="a.txt") == "words ü"
    assert await text(server, "read_file", path="sub/../sub/b.txt") == "more"
    assert await text(server, "read_file", path=str(root / "a.txt")) == "words ü"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link.txt", "linked/secret.txt", "sub/../../secret.txt"]
)
async def test_nothing_outside_the_folder_is_read(server: MCPServer, root: Path, path: str) -> None:
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "linked").symlink_to(root.parent)
    words = await error(server, "read_file", path=path)
    assert "outside the shared folder" in words
    assert str(root) not in words
    assert "outside" in await error(server, "list_files", folder="..")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone.txt", "There is no file 'gone.txt'"),
        ("sub", "There is no file 'sub'"),
        ("raw.bin", "not a text file"),
        ("latin.txt", "not a text file in UTF-8"),
        ("a\x00b", "is not a path"),
    ],
)
async def test_anything_that_cannot_be_read_says_why(
    server: MCPServer, root: Path, path: str, words: str
) -> None:
    assert words in await error(server, "read_file", path=path)


async def test_a_large_file_and_a_crowded_folder_are_refused(
    server: MCPServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "big.txt").write_bytes(b"x" * (samples.MAX_FILE_BYTES + 1))
    assert "larger than 256 KiB" in await error(server, "read_file", path="big.txt")
    (root / "big.txt").write_bytes(b"x" * samples.MAX_FILE_BYTES)
    assert len(await text(server, "read_file", path="big.txt")) == samples.MAX_FILE_BYTES
    monkeypatch.setattr(samples, "MAX_ENTRIES", 2)
    assert "more than 2" in await error(server, "list_files")
    assert "There is no folder 'gone'" in await error(server, "list_files", folder="gone")


@pytest.mark.skipif(not hasattr(os, "mkfifo") or os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_says_so(server: MCPServer, root: Path) -> None:
    (root / "a.txt").chmod(0)
    assert "cannot be read: Permission denied" in await error(server, "read_file", path="a.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
async def test_a_pipe_is_not_a_file_and_is_never_waited_for(server: MCPServer, root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "There is no file 'pipe'" in await error(server, "read_file", path="pipe")


async def test_without_a_setting_the_current_folder_is_shared(
    server: MCPServer, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLCRIB_FILES_ROOT")
    monkeypatch.chdir(root / "sub")
    assert await text(server, "read_file", path="b.txt") == "more"
    assert "outside" in await error(server, "read_file", path="../a.txt")


def test_the_target_toolcrib_samples_means_the_same_to_everything_that_takes_targets(tmp_path: Path) -> None:
    """It is not the path of the module. In a process of its own, which begins without the module."""
    script = """if True:
        import asyncio, pickle, sys
        from toolcrib import MCPServer, collect, get_catalog_cached
        from toolcrib.sources.scan import scan
        from toolcrib.sources.targets import parse_target

        names = [tool.name for tool in scan("toolcrib.samples").tools]
        assert "toolcrib.samples" not in sys.modules and len(names) == 5, names
        assert [tool.name for tool in scan("toolcrib.samples:echo").tools] == ["echo"]
        assert [tool.name for tool in collect("toolcrib.samples").tools if tool.options.enabled] == names
        assert [path.name for path in parse_target("toolcrib.samples").find_paths()] == ["samples.py"]
        first, again = get_catalog_cached("toolcrib.samples"), get_catalog_cached("toolcrib.samples")
        assert first == again and "math_add" in str(first)

        import toolcrib.samples
        assert pickle.loads(pickle.dumps(toolcrib.samples.echo)) is toolcrib.samples.echo
        server = MCPServer()
        server.add("toolcrib.samples", include=["echo"], run="process")
        assert asyncio.run(server.call("echo", {"message": "x"})).text == "Echo: x"
        assert "click" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=60)

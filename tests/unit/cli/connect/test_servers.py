"""Names every client takes, addresses, and the command that starts toolcrib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.connect.clients import (
    check_name,
    check_url,
    find_program,
    is_local,
    is_toolcrib,
    name_from,
)
from toolcrib.errors import ConfigurationError


@pytest.mark.parametrize("name", ["tools", "a", "My-Tools-2", "2nd", "x" * 32])
def test_valid_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "my_tools", "-x", "a b", "a.b", "x" * 33, "é", "a\n"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_name(name)
    assert caught.value.hint


@given(st.text())
def test_any_text_becomes_a_valid_name(text: str) -> None:
    assert check_name(name_from(text))


def test_names_are_made_from_text() -> None:
    assert name_from("my_tools") == "my-tools"
    assert name_from("shop.api") == "shop-api"
    assert name_from("My desk!") == "My-desk"
    assert name_from("---") == "toolcrib"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/mcp", "https://x.example/mcp?a=b", "http://[::1]:1/mcp"]
)
def test_valid_urls(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://x/y",
        "http://",
        "http:///mcp",
        "http://x y/",
        "http://[::1",
        "http://x:port/",
    ],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Invalid server URL"):
        check_url(url)


def test_the_installed_command_beside_the_interpreter_is_used(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    assert find_program(str(python), str(tmp_path / "none")) == [
        str(python),
        "-c",
        "from toolcrib.cli import main; main()",
    ]
    scripts = tmp_path / "Scripts"
    scripts.mkdir()
    (scripts / "toolcrib.exe").touch()
    assert find_program(str(python), str(scripts)) == [str(scripts / "toolcrib.exe")]
    (python.parent / "toolcrib").touch()
    assert find_program(str(python), str(scripts)) == [str(python.parent / "toolcrib")]


def test_a_virtual_environments_link_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "system" / "python"
    real.parent.mkdir()
    real.touch()
    link = tmp_path / "venv" / "python"
    link.parent.mkdir()
    link.symlink_to(real)
    assert find_program(str(link), str(tmp_path))[0] == str(link)


@pytest.mark.parametrize(
    ("entry", "is_ours"),
    [
        ({"command": "/venv/bin/toolcrib", "args": ["serve"]}, True),
        ({"command": "C:\\venv\\Scripts\\toolcrib.exe"}, True),
        ({"command": "toolcrib"}, True),
        ({"command": "uvx", "args": ["toolcrib", "serve", "--stdio"]}, True),
        ({"command": "python", "args": ["-m", "toolcrib", "serve"]}, True),
        ({"command": "python", "args": ["-c", "from toolcrib.cli import main; main()", "serve"]}, True),
        ({"command": "npx", "args": ["-y", "server"]}, False),
        ({"command": "/opt/toolcrib/bin/other"}, False),
        ({"command": 3, "args": 4}, False),
        ({"command": "npx", "args": {"toolcrib": 1}}, False),
        ({"url": "http://toolcrib/mcp"}, False),
        ("toolcrib", False),
        (None, False),
    ],
)
def test_an_entry_that_starts_toolcrib_is_recognised(entry: Any, is_ours: bool) -> None:
    assert is_toolcrib(entry) is is_ours


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"url": "http://127.0.0.1:8000/mcp"}, True),
        ({"httpUrl": "http://localhost/mcp"}, True),
        ({"url": "http://[::1]:9/mcp"}, True),
        ({"url": "https://mcp.example/mcp"}, False),
        ({"url": "http://[::1"}, False),
        ({"url": None}, False),
        ({"command": "x"}, False),
        (None, False),
    ],
)
def test_a_url_on_this_machine_is_recognised(entry: Any, expected: bool) -> None:
    assert is_local(entry) is expected

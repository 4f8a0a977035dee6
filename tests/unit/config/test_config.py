"""`toolcrib.toml` and the environment, with errors that name file, line and key."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from toolcrib.config import Config, HTTPConfig, check_path, load_config, parse_config, switches_from
from toolcrib.errors import ConfigurationError


def test_server_and_tools_are_read(tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    path = tmp_path / "toolcrib.toml"
    path.write_text(
        '[server]\nname = "shop"\ntargets = ["tools.py", "kit", "shop.api", "a.py:x", "shop:app"]\n'
        'namespace = "s"\ntimeout_s = 5\n\n'
        '[tools]\nenable_math_tools = false\ninclude = ["a*"]\nexclude = ["b"]\n'
    )
    config = load_config(path)
    assert config.name == "shop"
    assert config.targets == (
        str(tmp_path / "tools.py"),
        str(tmp_path / "kit"),
        "shop.api",
        f"{tmp_path / 'a.py'}:x",
        "shop:app",
    )
    assert (config.namespace, config.timeout_s) == ("s", 5.0)
    assert config.switches == {"enable_math_tools": False}
    assert (config.include, config.exclude) == (("a*",), ("b",))
    assert config.lines["tools.include"] == 9
    with pytest.raises(FrozenInstanceError):
        config.name = "other"  # type: ignore[misc]


def test_all_server_and_http_keys_are_read(tmp_path: Path) -> None:
    text = (
        '[server]\nversion = "1.4"\ntitle = "The shop"\ninstructions = "In EUR"\npage_size = 100\n'
        'log_arguments = true\nmax_result_tokens = 5000\nlarge_results = "link"\n'
        '[http]\nhost = "::1"\nport = 0\npath = "/a/b/"\nallowed_hosts = ["x.example"]\n'
        'allowed_origins = ["https://x.example"]\nworkers = 4\n'
    )
    config = parse_config(text, tmp_path / "toolcrib.toml")
    assert (config.version, config.title, config.instructions) == ("1.4", "The shop", "In EUR")
    assert (config.page_size, config.log_arguments) == (100, True)
    assert (config.max_result_tokens, config.large_results) == (5000, "link")
    assert config.http == HTTPConfig("::1", 0, "/a/b", ("x.example",), ("https://x.example",), 4)


@pytest.mark.parametrize("path", ["mcp", "", "/a b", "/a?b", "/../x", "/a/./b", "//a", "/a\n", 3])
def test_invalid_paths(path: object) -> None:
    with pytest.raises(ValueError, match="must"):
        check_path(path)


def test_an_empty_file_has_the_defaults(tmp_path: Path) -> None:
    config = parse_config("", tmp_path / "toolcrib.toml")
    assert config == Config(file=tmp_path / "toolcrib.toml")


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("[server\n", 1, None, "not valid TOML"),
        ("[servr]\n", 1, "servr", "unknown key"),
        ("[server]\nnme = 'x'\n", 2, "server.nme", "unknown key"),
        ("[server]\nname = 3\n", 2, "server.name", "must be a non-empty string, got 3"),
        ("[server]\nname = ' '\n", 2, "server.name", "must be a non-empty string"),
        ("[server]\n\ntargets = 'x.py'\n", 3, "server.targets", "must be a list of strings, got 'x.py'"),
        ("[server]\ntargets = ['x.py', 3]\n", 2, "server.targets", "one is 3"),
        ("[server]\ntargets = ['']\n", 2, "server.targets", "one is ''"),
        ("[server]\ntimeout_s = 'soon'\n", 2, "server.timeout_s", "must be a number"),
        ("[server]\ntimeout_s = true\n", 2, "server.timeout_s", "must be a number"),
        ("[server]\ntimeout_s = 0\n", 2, "server.timeout_s", "must be from 0.001 to 3600"),
        ("[server]\ntimeout_s = nan\n", 2, "server.timeout_s", "must be from 0.001 to 3600"),
        ("[server]\ntimeout_s = 4000\n", 2, "server.timeout_s", "must be from 0.001 to 3600"),
        ("[tools]\nenable_math_tools = 1\n", 2, "tools.enable_math_tools", "must be true or false"),
        ("[tools]\nenable_math = true\n", 2, "tools.enable_math", "unknown key"),
        ("[tools]\ninclude = {}\n", 2, "tools.include", "got {}"),
        ("[server]\npage_size = 0\n", 2, "server.page_size", "must be from 1 to 100000, got 0"),
        ("[server]\nmax_result_tokens = 9\n", 2, "server.max_result_tokens", "must be from 200 to 10000000"),
        ("[server]\nlarge_results = 1\n", 2, "server.large_results", "must be"),
        ("[server]\nlog_arguments = 1\n", 2, "server.log_arguments", "must be true or false"),
        ("[http]\nport = 70000\n", 2, "http.port", "must be from 0 to 65535, got 70000"),
        ("[http]\nport = '80'\n", 2, "http.port", "must be an integer, got '80'"),
        ("[http]\nport = true\n", 2, "http.port", "must be an integer, got true"),
        ("[http]\nworkers = 0\n", 2, "http.workers", "must be from 1 to 64"),
        ("[http]\npath = 'mcp'\n", 2, "http.path", "must be a path such as /mcp, got 'mcp'"),
        ("[http]\nallowed_hosts = 'x'\n", 2, "http.allowed_hosts", "must be a list of strings"),
        ("http = []\n", 1, "http", "must be a table"),
        ("server = 3\n", 1, "server", "must be a table"),
        ("tools.exclude = 3\n", 1, "tools.exclude", "must be a list"),
    ],
)
def test_an_error_names_file_line_and_key(
    tmp_path: Path, text: str, line: int, key: str | None, words: str
) -> None:
    path = tmp_path / "toolcrib.toml"
    with pytest.raises(ConfigurationError) as caught:
        parse_config(text, path)
    assert words in str(caught.value)
    assert (caught.value.file, caught.value.line, caught.value.key) == (str(path), line, key)
    assert f"{path}:{line}" in str(caught.value)


def test_an_unknown_key_is_reported_with_a_similar_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_config("[server]\ntarget = []\n", tmp_path / "toolcrib.toml")
    assert caught.value.hint == "did you mean 'targets'?"
    with pytest.raises(ConfigurationError) as caught:
        parse_config("[tools]\nzzz = []\n", tmp_path / "toolcrib.toml")
    assert caught.value.hint == "known keys: include, exclude, enable_GROUP_tools"


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read: "):
        load_config(tmp_path / "gone.toml")
    (tmp_path / "toolcrib.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_config(tmp_path / "toolcrib.toml")


def test_switches_of_the_environment_override_the_file(tmp_path: Path) -> None:
    environ = {"TOOLCRIB_ENABLE_MATH_TOOLS": "0", "TOOLCRIB_ENABLE_FILE_TOOLS": " Yes ", "TOOLCRIB_HOME": "x"}
    assert switches_from(environ) == {"enable_math_tools": False, "enable_file_tools": True}
    config = parse_config("[tools]\nenable_math_tools = true\n", tmp_path / "toolcrib.toml", environ)
    assert config.switches == {"enable_math_tools": False, "enable_file_tools": True}


def test_an_invalid_switch_variable_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="TOOLCRIB_ENABLE_MATH_TOOLS: must be 1 or 0, got 'maybe'"):
        switches_from({"TOOLCRIB_ENABLE_MATH_TOOLS": "maybe"})

"""`toolcrib.toml` and the environment as plain data, with errors that name file, line and key.

    [server]
    name = "shop"                       # what the server calls itself; clients are also told
    version = "1.4"                     # its version,
    title = "The shop"                  # a name for people,
    instructions = "Prices are in EUR"  # and what models should know
    targets = ["tools.py", "shop.api"]  # files, folders, modules, module:object; below this file's folder
    namespace = "shop"                  # put before every name: shop_find_order
    timeout_s = 30                      # for tools that set none
    page_size = 100                     # tools in one answer to tools/list; without it, all
    log_arguments = true                # write the values of arguments to the log, not only their names

    [http]
    host = "127.0.0.1"
    port = 8000
    path = "/mcp"
    allowed_hosts = ["tools.example.com"]          # names this server goes by, besides its own
    allowed_origins = ["https://app.example.com"]  # pages in a browser that may call it
    workers = 4                                    # processes

    [tools]
    enable_math_tools = false           # a switch per group of tools
    include = ["shop_*", "tag:public"]  # names, globs, tag:NAME, re:PATTERN
    exclude = ["*_internal"]

    [search]
    publish = "auto"                    # two tools to search and call for a long list: auto, always, never
    budget_tokens = 10000               # how long a list may be before "auto" does so

    [lint]
    ignore = ["long-description", "undocumented-result:shop_*"]  # a code, or code:TOOL with a glob
    error = ["missing-description"]     # findings with these codes are errors

    [lock]
    file = "toolcrib.lock"              # what `lock` writes and `serve --locked` keeps to
    on_drift = "refuse"                 # to start, or "quarantine": serve without what differs

    [catalog]
    cache = ".cache/tool_catalog.json"

The variable TOOLCRIB_ENABLE_MATH_TOOLS=0 wins over the switch in the file. Knows the shape of the file;
refuses to know tools and how targets are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.errors import ConfigurationError

FILE_NAME = "toolcrib.toml"
_SECTIONS = {
    "server": (
        "name",
        "version",
        "title",
        "instructions",
        "targets",
        "namespace",
        "timeout_s",
        "page_size",
        "log_arguments",
    ),
    "http": ("host", "port", "path", "allowed_hosts", "allowed_origins", "workers"),
    "tools": ("include", "exclude"),
    "search": ("publish", "budget_tokens"),
    "lint": ("ignore", "error"),
    "lock": ("file", "on_drift"),
    "catalog": ("cache",),
}
MAX_WORKERS = 64
_SWITCH = re.compile(r"enable_[A-Za-z0-9_-]+_tools")
_VARIABLE = re.compile(r"TOOLCRIB_(ENABLE_[A-Z0-9_]+_TOOLS)")
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True} | {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_TOML_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")


@dataclass(frozen=True, slots=True)
class HTTPConfig:
    """Where a server is to be reached by HTTP, as far as a file says so."""

    host: str | None = None
    port: int | None = None
    path: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Whether tools to search the others stand in for a list that is too long."""

    publish: Literal["auto", "always", "never"] | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LintConfig:
    ignore: tuple[str, ...] = ()
    error: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockConfig:
    file: Path | None = None
    on_drift: Literal["refuse", "quarantine"] | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """What a file asks for. No `targets`: the sample tools. `lines` says where a key was written."""

    file: Path | None = None
    name: str | None = None
    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    targets: tuple[str, ...] = ()
    namespace: str | None = None
    timeout_s: float | None = None
    page_size: int | None = None
    log_arguments: bool | None = None
    http: HTTPConfig = HTTPConfig()
    search: SearchConfig = SearchConfig()
    lint: LintConfig = LintConfig()
    lock: LockConfig = LockConfig()
    cache: Path | None = None
    switches: Mapping[str, bool] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)


def load_config(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Read a file. Raises ConfigurationError for whatever is wrong with it."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigurationError("is not UTF-8 text", file=str(path)) from None
    return parse_config(text, path, environ)


def parse_config(text: str, path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """The settings in a text; `path` is where it stands, and what relative targets are relative to."""
    import tomllib  # most commands read no file

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.search(str(error))
        raise ConfigurationError(
            f"is not TOML: {_TOML_PLACE.sub('', str(error))}",
            file=str(path),
            line=int(place[1]) if place else None,
        ) from None
    reader = _Reader(text, path)
    server = reader.section(document, "server")
    tools = reader.section(document, "tools")
    http = reader.section(document, "http")
    search, lint, lock, catalog = (
        reader.section(document, name) for name in ("search", "lint", "lock", "catalog")
    )
    reader.refuse_unknown("", document, _SECTIONS)
    for name in _SECTIONS.keys() - {"tools"}:
        reader.refuse_unknown(name, reader.section(document, name), _SECTIONS[name])
    switches = {key: value for key, value in tools.items() if _SWITCH.fullmatch(key)}
    reader.refuse_unknown("tools", tools, (*_SECTIONS["tools"], *switches), "enable_GROUP_tools")
    folder = path.resolve().parent
    return Config(
        file=path,
        name=reader.take(server, "server", "name", _text),
        version=reader.take(server, "server", "version", _text),
        title=reader.take(server, "server", "title", _text),
        instructions=reader.take(server, "server", "instructions", _text),
        targets=tuple(
            resolve_target(target, folder)
            for target in reader.take(server, "server", "targets", _texts) or ()
        ),
        namespace=reader.take(server, "server", "namespace", _text),
        timeout_s=reader.take(server, "server", "timeout_s", _seconds),
        page_size=reader.take(server, "server", "page_size", _Whole(1, 100_000)),
        log_arguments=reader.take(server, "server", "log_arguments", _boolean),
        http=HTTPConfig(
            host=reader.take(http, "http", "host", _text),
            port=reader.take(http, "http", "port", _Whole(0, 65535)),
            path=reader.take(http, "http", "path", check_path),
            allowed_hosts=tuple(reader.take(http, "http", "allowed_hosts", _texts) or ()),
            allowed_origins=tuple(reader.take(http, "http", "allowed_origins", _texts) or ()),
            workers=reader.take(http, "http", "workers", _Whole(1, MAX_WORKERS)),
        ),
        search=SearchConfig(
            publish=reader.take(search, "search", "publish", _Choice("auto", "always", "never")),
            budget_tokens=reader.take(search, "search", "budget_tokens", _Whole(0, 10_000_000)),
        ),
        lint=LintConfig(
            ignore=tuple(reader.take(lint, "lint", "ignore", _texts) or ()),
            error=tuple(reader.take(lint, "lint", "error", _texts) or ()),
        ),
        lock=LockConfig(
            file=reader.take(lock, "lock", "file", _Below(folder)),
            on_drift=reader.take(lock, "lock", "on_drift", _Choice("refuse", "quarantine")),
        ),
        cache=reader.take(catalog, "catalog", "cache", _Below(folder)),
        switches={key: reader.take(tools, "tools", key, _boolean) for key in switches}
        | switches_in(environ or {}),
        include=tuple(reader.take(tools, "tools", "include", _texts) or ()),
        exclude=tuple(reader.take(tools, "tools", "exclude", _texts) or ()),
        lines=reader.lines,
    )


def switches_in(environ: Mapping[str, str]) -> dict[str, bool]:
    """The switches that environment variables set: TOOLCRIB_ENABLE_MATH_TOOLS=0."""
    switches: dict[str, bool] = {}
    for variable, value in environ.items():
        found = _VARIABLE.fullmatch(variable)
        if found is None:
            continue
        if value.strip().lower() not in _BOOLEANS:
            raise ConfigurationError(f"must be 1 or 0, got {value!r}", key=variable)
        switches[found[1].lower()] = _BOOLEANS[value.strip().lower()]
    return switches


def resolve_target(target: str, folder: Path) -> str:
    """A target as seen from anywhere: paths are joined to `folder`, names of modules stay as they are."""
    place, colon, name = target.rpartition(":")
    path, rest = (place, f":{name}") if colon and place.endswith(".py") else (target, "")
    is_path = path.endswith((".py", ".toml")) or "/" in path or "\\" in path or (folder / path).exists()
    return f"{folder / path}{rest}" if is_path else target


class _Reader:
    """Takes values out of a document; whatever is wrong, it says where."""

    def __init__(self, text: str, path: Path) -> None:
        self.file = str(path)
        self.lines = _lines_of_keys(text)

    def section(self, document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        section = document.get(name, {})
        if not isinstance(section, dict):
            self.refuse(name, f"must be a table, got {_kind(section)}", f"write [{name}] above its keys")
        return section

    def take(self, section: Mapping[str, Any], name: str, key: str, read: Callable[[Any], Any]) -> Any:
        if key not in section:
            return None
        try:
            return read(section[key])
        except ValueError as error:
            self.refuse(f"{name}.{key}", str(error))

    def refuse_unknown(
        self, section: str, given: Iterable[str], known: Iterable[str], besides: str | None = None
    ) -> None:
        names = list(known)
        for key in given:
            if key in names:
                continue
            import difflib

            close = difflib.get_close_matches(key, names, n=1)
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"known here: {', '.join([*names, *([besides] if besides else [])])}"
            )
            self.refuse(f"{section}.{key}" if section else key, "unknown key", hint)

    def refuse(self, key: str, problem: str, hint: str | None = None) -> NoReturn:
        raise ConfigurationError(problem, file=self.file, key=key, line=self.lines.get(key), hint=hint)


_HEADER = re.compile(r"\s*\[+\s*([\w.\"'-]+)\s*\]+")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def _lines_of_keys(text: str) -> dict[str, int]:
    """Where each key is written. TOML's reader keeps no places; simple lines are all a person writes."""
    lines: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = header[1].replace('"', "").replace("'", "")
            lines.setdefault(section, number)
        elif key := _KEY.match(line):
            name = key[1].replace('"', "").replace("'", "")
            lines.setdefault(f"{section}.{name}" if section else name, number)
    return lines


_KINDS = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a table",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a string, got {_kind(value)}")
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of strings, got {_kind(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ValueError(f"must be a list of strings, but {item!r} is {_kind(item)}")
        if not item.strip():
            raise ValueError("must be a list of strings, but one is empty")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {_kind(value)}")
    return value


@dataclass(frozen=True, slots=True)
class _Whole:
    """Reads a whole number between two others."""

    least: int
    most: int

    def __call__(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number, got {_kind(value)}")
        if not self.least <= value <= self.most:
            raise ValueError(f"must be from {self.least} to {self.most}, got {value}")
        return value


class _Choice:
    """Reads one of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, value: Any) -> str:
        if value not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)}, got {value!r}")
        return str(value)


@dataclass(frozen=True, slots=True)
class _Below:
    """Reads the path of a file, seen from the folder of the file it is written in."""

    folder: Path

    def __call__(self, value: Any) -> Path:
        return self.folder / _text(value)


_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+/?|/")


def check_path(value: Any) -> str:
    """The path of an endpoint as requests spell it. Raises ValueError."""
    text = _text(value)
    if not _PATH.fullmatch(text) or any(part in (".", "..") for part in text.split("/")):
        raise ValueError(f"must be a path such as /mcp, got {text!r}")
    return text.rstrip("/") or "/"


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number of seconds, got {_kind(value)}")
    if not 0 < value <= MAX_TIMEOUT_S:
        raise ValueError(f"must be above 0 and at most {MAX_TIMEOUT_S:g} seconds, got {value!r}")
    return float(value)

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
    insecure = false                               # true: listen beyond this machine without [auth]

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

    [log]
    format = "json"                     # or "text"

and the sections of a policy: see `config.demands`.
The variable TOOLCRIB_ENABLE_MATH_TOOLS=0 wins over the switch in the file. Knows the shape of the file;
refuses to know tools and how targets are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolcrib.config.reader import SECTIONS as _DEMANDS
from toolcrib.config.reader import (
    Below,
    Choice,
    Reader,
    Whole,
    check_path,
    read_boolean,
    read_policy,
    read_seconds,
    read_text,
    read_texts,
)
from toolcrib.config.settings import Policy
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
    "http": ("host", "port", "path", "allowed_hosts", "allowed_origins", "workers", "insecure"),
    "tools": ("include", "exclude"),
    "search": ("publish", "budget_tokens"),
    "lint": ("ignore", "error"),
    "lock": ("file", "on_drift"),
    "catalog": ("cache",),
    "log": ("format",),
}
_FORMATS = ("text", "json")
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
    insecure: bool | None = None


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
    log_format: Literal["text", "json"] | None = None
    policy: Policy | None = None
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


def find_log_format(path: Path) -> str | None:
    """How a file wants it logged, though something else in it be wrong: that is to be told in this format."""
    import tomllib  # as below

    try:
        log = tomllib.loads(path.read_text("utf-8")).get("log")
    except (OSError, ValueError):
        return None
    found = log.get("format") if isinstance(log, dict) else None
    return found if found in _FORMATS else None


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
    reader = Reader(text, path)
    server = reader.try_section(document, "server")
    tools = reader.try_section(document, "tools")
    http = reader.try_section(document, "http")
    search, lint, lock, catalog, log = (
        reader.try_section(document, name) for name in ("search", "lint", "lock", "catalog", "log")
    )
    with reader.problems.collecting():
        reader.refuse_unknown("", document, (*_SECTIONS, *_DEMANDS))
    given = {"server": server, "http": http, "search": search, "lint": lint, "lock": lock}
    for name, section in {**given, "catalog": catalog, "log": log}.items():
        with reader.problems.collecting():
            reader.refuse_unknown(name, section, _SECTIONS[name])
    switches = {key: value for key, value in tools.items() if _SWITCH.fullmatch(key)}
    with reader.problems.collecting():
        reader.refuse_unknown("tools", tools, (*_SECTIONS["tools"], *switches), "enable_GROUP_tools")
    overrides: Mapping[str, bool] = {}
    with reader.problems.collecting():
        overrides = switches_in(environ or {})
    folder = path.resolve().parent
    config = Config(
        file=path,
        name=reader.try_take(server, "server", "name", read_text),
        version=reader.try_take(server, "server", "version", read_text),
        title=reader.try_take(server, "server", "title", read_text),
        instructions=reader.try_take(server, "server", "instructions", read_text),
        targets=tuple(
            resolve_target(target, folder)
            for target in reader.try_take(server, "server", "targets", read_texts) or ()
        ),
        namespace=reader.try_take(server, "server", "namespace", read_text),
        timeout_s=reader.try_take(server, "server", "timeout_s", read_seconds),
        page_size=reader.try_take(server, "server", "page_size", Whole(1, 100_000)),
        log_arguments=reader.try_take(server, "server", "log_arguments", read_boolean),
        http=HTTPConfig(
            host=reader.try_take(http, "http", "host", read_text),
            port=reader.try_take(http, "http", "port", Whole(0, 65535)),
            path=reader.try_take(http, "http", "path", check_path),
            allowed_hosts=tuple(reader.try_take(http, "http", "allowed_hosts", read_texts) or ()),
            allowed_origins=tuple(reader.try_take(http, "http", "allowed_origins", read_texts) or ()),
            workers=reader.try_take(http, "http", "workers", Whole(1, MAX_WORKERS)),
            insecure=reader.try_take(http, "http", "insecure", read_boolean),
        ),
        search=SearchConfig(
            publish=reader.try_take(search, "search", "publish", Choice("auto", "always", "never")),
            budget_tokens=reader.try_take(search, "search", "budget_tokens", Whole(0, 10_000_000)),
        ),
        lint=LintConfig(
            ignore=tuple(reader.try_take(lint, "lint", "ignore", read_texts) or ()),
            error=tuple(reader.try_take(lint, "lint", "error", read_texts) or ()),
        ),
        lock=LockConfig(
            file=reader.try_take(lock, "lock", "file", Below(folder)),
            on_drift=reader.try_take(lock, "lock", "on_drift", Choice("refuse", "quarantine")),
        ),
        cache=reader.try_take(catalog, "catalog", "cache", Below(folder)),
        log_format=reader.try_take(log, "log", "format", Choice(*_FORMATS)),
        policy=read_policy(document, reader, folder),
        switches={key: reader.try_take(tools, "tools", key, read_boolean) for key in switches} | overrides,
        include=tuple(reader.try_take(tools, "tools", "include", read_texts) or ()),
        exclude=tuple(reader.try_take(tools, "tools", "exclude", read_texts) or ()),
        lines=reader.lines,
    )
    reader.problems.raise_errors()
    return config


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

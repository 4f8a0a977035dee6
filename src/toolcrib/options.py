"""The options of a tool, checked: one value from the decorator to the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypedDict, Union, get_args, get_origin, get_type_hints

from toolcrib.errors import ConfigurationError, InvalidToolError, suggest
from toolcrib.validation import codec

RunMode = Literal["auto", "inline", "thread", "process"]
Extra = Literal["refuse", "ignore"]
EXTRAS: tuple[Extra, ...] = ("refuse", "ignore")
LargeResults = Literal["shorten", "link"]
TaskMode = Literal["never", "when-long", "always"]
CacheScope = Literal["principal", "shared"]
MAX_RETRIES = 10

MAX_TIMEOUT_S = 3600.0
MIN_RESULT_TOKENS = 200
"""A smaller budget for results would hardly hold the note about what is missing."""


class OptionFields(TypedDict, total=False):
    """The options of a tool as keyword arguments of `@tool(...)`, `Tool.from_function` and `add`."""

    name: str | None
    title: str | None
    description: str | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    tags: Sequence[str]
    version: str | None
    metadata: Mapping[str, Any]
    group: str | None
    aliases: Sequence[str]
    scopes: Sequence[str]
    audit: Literal["required"] | None
    enabled: bool
    run: RunMode
    timeout_s: float | None
    task: TaskMode
    cache_s: float | None
    cache: CacheScope
    retries: int
    max_threads: int | None
    max_result_tokens: int | None
    large_results: LargeResults | None
    extra: Extra
    repair: bool
    icons: Sequence[Mapping[str, Any]]
    meta: Mapping[str, Any]
    ui: str | Mapping[str, Any] | None
    bind: Mapping[str, Any]
    rename: Mapping[str, str]
    hide: Sequence[str]


class GivenOptions(OptionFields, total=False):
    """The same with names of mcp and fastmcp for options that are called otherwise here."""

    annotations: Any
    timeout: float | None
    exclude_args: Sequence[str]


@dataclass(frozen=True)
class ToolOptions:
    """The options of a tool: one value, from the decorator to the call.

    `read_only`, `destructive`, `idempotent` and `open_world` are annotations for clients. `group` belongs to
    the switch `enable_{group}_tools`. `run` says where sync code runs: "thread" (the default for `def`),
    "inline" for code that never blocks, "process" for code that must be killable. `task` says when a call is
    answered with a task, for clients that can follow one: "never", "when-long", where it takes longer than a
    moment, or "always". Results are kept for `cache_s` seconds, for the same arguments of the same principal
    or, with `cache="shared"`, of all. A tool that is idempotent or read-only is run again up to `retries`
    times after an unexpected exception, until its deadline. `extra="ignore"` drops unknown argument names
    instead of refusing them. `repair=False` turns off the correction of common mistakes in arguments.
    Of a result with more than `max_result_tokens` (0: no limit), the caller gets as much as fits,
    or a link to the whole, as `large_results` says; both are by default those of the server. A policy
    requires `scopes` of callers, and an audit record of each call where `audit="required"`. `icons` and
    `meta` are sent to clients unchanged (MCP's `icons` and `_meta`); `metadata` is not sent. `ui` is the page
    that shows the results of the tool: the URI of an app (`server.add_app`), or `{"resourceUri": ...,
    "visibility": ["app"]}` for a tool that only the page calls. `bind` fixes arguments to values and `hide`
    leaves them at their defaults, so that clients neither see nor send them; `rename` publishes them under
    other names.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    tags: Sequence[str] = ()
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None
    aliases: Sequence[str] = ()
    scopes: Sequence[str] = ()
    audit: Literal["required"] | None = None
    enabled: bool = True
    run: RunMode = "auto"
    timeout_s: float | None = None
    task: TaskMode = "never"
    cache_s: float | None = None
    cache: CacheScope = "principal"
    retries: int = 0
    max_threads: int | None = None
    max_result_tokens: int | None = None
    large_results: LargeResults | None = None
    extra: Extra = "refuse"
    repair: bool = True
    icons: Sequence[Mapping[str, Any]] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    ui: str | Mapping[str, Any] | None = None
    bind: Mapping[str, Any] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    hide: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_options(self)
        if self.ui is not None:
            _check_ui(self, self.ui)

    @property
    def changes_arguments(self) -> bool:
        """Whether the tool publishes other arguments than its function has."""
        return bool(self.bind or self.rename or self.hide)

    def override(self, given: OptionFields) -> ToolOptions:
        """Return these options with the `given` ones replaced; tags and metadata are merged."""
        if not given:
            return self
        unknown = given.keys() - _OPTION_NAMES
        if unknown:
            given = translate_options(given)
            unknown = given.keys() - _OPTION_NAMES
        if unknown:
            known = sorted(_OPTION_NAMES)
            hint = _OTHER_OPTIONS.get(min(unknown)) or suggest(
                min(unknown), known, f"options: {', '.join(known)}", cutoff=0.5
            )
            raise InvalidToolError(f"Unknown tool option: {', '.join(sorted(unknown))}", hint=hint)
        options = replace(self, **given)
        if self.tags and options.tags is not self.tags:
            options = replace(options, tags=tuple(dict.fromkeys((*self.tags, *options.tags))))
        if self.metadata and options.metadata is not self.metadata:
            options = replace(options, metadata={**self.metadata, **options.metadata})
        return options

    @property
    def published_meta(self) -> Mapping[str, Any]:
        """The `_meta` that clients see, with the page of the tool."""
        if self.ui is None:
            return self.meta
        return {**self.meta, "ui": {"resourceUri": self.ui} if isinstance(self.ui, str) else dict(self.ui)}

    @property
    def annotations(self) -> dict[str, Any]:
        """The annotations that were set, under their MCP names."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {key: value for key, value in hints.items() if value is not None}


_OPTION_NAMES = frozenset(item.name for item in fields(ToolOptions))


# --- options by the names that they have in mcp and fastmcp ---

_ALIASES = {"timeout": "timeout_s", "exclude_args": "hide"}
_ANNOTATIONS = {
    "title": "title",
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_OTHER_OPTIONS = {
    "auth": "use scopes=[...] and a policy",
    "confirm": "use a rule: Rule(confirm=[...]) of toolcrib.policy, or ctx.ask in the tool",
    "fn": "pass the function first, without a name",
    "parameters": "use input_schema=...",
    "run_in_thread": "use run='thread' or run='inline'",
    "serializer": "return the text, or a toolcrib.Result",
    "structured_output": "leave out the hint of the result for a tool without output schema",
}
_OTHER_FIELDS = {
    "arguments": "arguments are the parameters of the function",
    "auth": _OTHER_OPTIONS["auth"],
    "uri_template": "give the URI first, with its variables in braces",
}


def check_option_names(given: Mapping[str, Any], kind: str, known: Collection[str]) -> None:
    """Raise InvalidToolError for an option that a resource, prompt or app does not have."""
    unknown = sorted(name for name in given if name not in known and _ALIASES.get(name) not in known)
    if not unknown:
        return
    first = unknown[0]
    snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", first).lower()
    hint = _OTHER_FIELDS.get(snake_case) or suggest(first, known, f"options: {', '.join(sorted(known))}")
    hint = f"use {snake_case}=..." if snake_case in known else hint
    raise InvalidToolError(f"Unknown {kind} option: {', '.join(unknown)}", hint=hint)


def merge_arguments(
    arguments: Mapping[str, Any] | None, keywords: Mapping[str, Any], options: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return the arguments of a call, which are given as a dict or as keywords. `options` are the keywords
    that are no arguments. Raise TypeError for both."""
    if arguments is None:
        return keywords
    first = next(iter(keywords))
    hint = suggest(first, options, f"put '{first}' into the dict, or give all arguments as keywords")
    raise TypeError(f"arguments are given as a dict, so '{first}' can only be an option ({hint})")


def translate_options(given: OptionFields) -> OptionFields:
    """Return options with those of mcp and fastmcp under their names here."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        translated = _read_annotations(value) if name == "annotations" else {_ALIASES.get(name, name): value}
        for key in translated:
            if key in options or (key != name and key in given):
                raise InvalidToolError(f"Option '{key}' is given twice, also by '{name}'")
        options |= translated
    return options  # type: ignore[return-value]


def _read_annotations(given: Any) -> dict[str, Any]:
    """Return the options in a dict of MCP's annotations, or in a `ToolAnnotations` of mcp."""
    if hasattr(given, "model_dump"):
        given = given.model_dump(by_alias=True, exclude_none=True)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidToolError(f"Option 'annotations' must be a dict, got {given!r:.80}")
    for name in given:
        if name not in _ANNOTATIONS:
            hint = suggest(str(name), _ANNOTATIONS, f"annotations: {', '.join(_ANNOTATIONS)}")
            raise InvalidToolError(f"Unknown annotation: {name}", hint=hint)
    return {_ANNOTATIONS[name]: value for name, value in given.items()}


_TYPES: dict[Any, tuple[tuple[Any, ...], str]] = {
    Any: ((object,), "anything"),
    bool: ((bool,), "True or False"),
    float: ((int, float), "a number"),
    int: ((int,), "a whole number"),
    str: ((str,), "a string"),
    Callable: ((Callable,), "a function"),
    Mapping: ((Mapping,), "a dict"),
    Sequence: ((list, tuple, set, frozenset), "a list"),
}
"""What values are given for a type hint, and how it is called in messages."""
_ITEMS: dict[Any, str] = {str: " of strings", bool: " of True or False", Mapping: " of dicts"}
_LATER = dict.fromkeys(("Fleet", "Tasks", "Timeouts"), Any)
"""Types that are imported when they are used; they are checked there."""
_EXPECTED = {
    "icons": "a list of dicts with 'src'",
    "key": "bytes, such as secrets.token_bytes(32)",
    "max_result_tokens": "a whole number of tokens",
    "search_budget_tokens": "a whole number of tokens",
    "switches": "a dict such as {'enable_file_tools': True}",
    "ui": "a URI, or a dict with resourceUri and visibility",
}
"""What some options take, where their type hints say less."""


class _Check(NamedTuple):
    """What an option takes."""

    types: tuple[Any, ...]
    item: Any
    choices: tuple[Any, ...]
    expected: str
    is_secret: bool

    @classmethod
    def of(cls, option: Field[Any], hint: Any) -> _Check:
        types: list[Any] = []
        item, words = None, []
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        choices = [each for part in parts if get_origin(part) is Literal for each in get_args(part)]
        if choices:
            shown = [repr(each) for each in choices] + ["None"] * (len(choices) == 1)
            words.append(f"{', '.join(shown[:-1])} or {shown[-1]}")
        for part in parts:
            kind = get_origin(part) or part
            if kind is NoneType:
                choices.append(None)
            elif kind is not Literal:
                known, word = _TYPES.get(kind, ((kind,), getattr(kind, "__name__", "")))
                types += known
                inner = get_args(part)[-1] if kind in (Mapping, Sequence) else None
                inner = get_origin(inner) or inner
                item = inner if inner in _ITEMS and (kind is Sequence or inner is bool) else item
                words.append(word + _ITEMS.get(item, ""))
        expected = _EXPECTED.get(option.name) or " or ".join(words)
        return cls(tuple(types), item, tuple(choices), expected, not option.repr)

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool) and bool not in self.types and object not in self.types:
            return False
        if not isinstance(value, self.types):
            return value in self.choices
        items = () if self.item is None else value.values() if isinstance(value, Mapping) else value
        return all(isinstance(each, self.item) for each in items)


@cache
def _checks_of(kind: type) -> dict[str, _Check]:
    hints = get_type_hints(kind, localns=_LATER)
    return {item.name: _Check.of(item, hints[item.name]) for item in fields(kind)}


def _find_wrong_option(options: Any) -> tuple[str, str] | None:
    """Return the first field of a dataclass whose value its type hint does not permit, and the problem."""
    kind: Any = type(options)
    for name, check in _checks_of(kind).items():
        value = getattr(options, name)
        if not check.accepts(value):
            shown = type(value).__name__ if check.is_secret else f"{value!r:.80}"
            return name, f"must be {check.expected}, got {shown}"
    return None


def check_settings(settings: Any) -> None:
    """Raise ConfigurationError for a setting of a server that its type hint does not permit."""
    if wrong := _find_wrong_option(settings):
        raise ConfigurationError(wrong[1], key=wrong[0])


def _check_options(options: ToolOptions) -> None:
    """Raise InvalidToolError for an option of a wrong type or value."""
    _check_types(options)
    if options.version is not None and (not options.version or "@" in options.version):
        raise _option_error(options, "version", "must not be empty or contain '@'")
    if options.timeout_s is not None and not 0 < options.timeout_s <= MAX_TIMEOUT_S:
        raise _option_error(options, "timeout_s", f"must be above 0 and at most {MAX_TIMEOUT_S:g} seconds")
    if options.max_threads is not None and options.max_threads < 1:
        raise _option_error(options, "max_threads", "must be at least 1")
    _check_repetition(options)
    if options.max_result_tokens and not is_result_budget(options.max_result_tokens):
        text = f"must be at least {MIN_RESULT_TOKENS}, or 0 for no limit"
        raise _option_error(options, "max_result_tokens", text)
    if options.read_only and options.destructive:
        raise InvalidToolError("A tool cannot be both read_only and destructive", tool=_name_of(options))


def _check_repetition(options: ToolOptions) -> None:
    """Check the options that keep results and run a tool again."""
    if options.cache_s is not None and not options.cache_s > 0:
        raise _option_error(options, "cache_s", "must be above 0")
    if options.cache == "shared" and options.cache_s is None:
        raise _option_error(options, "cache", "needs cache_s", "say for how long: cache_s=60")
    if not 0 <= options.retries <= MAX_RETRIES:
        raise _option_error(options, "retries", f"must be 0 to {MAX_RETRIES}")
    if options.retries and not (options.idempotent or options.read_only):
        hint = "add idempotent=True if a second run does no harm, or read_only=True"
        raise _option_error(options, "retries", "needs a tool that is idempotent or read-only", hint)


_ICONS = "such as icons=[{'src': 'https://example.com/a.png'}]"


def _check_types(options: ToolOptions) -> None:
    if wrong := _find_wrong_option(options):
        hint = _ICONS if wrong[0] == "icons" else None
        raise InvalidToolError(f"Option '{wrong[0]}' {wrong[1]}", tool=_name_of(options), hint=hint)
    icons: Any = options.icons
    if not all(isinstance(icon.get("src"), str) for icon in icons):
        raise _option_error(options, "icons", "must be a list of dicts with 'src'", _ICONS)
    for name in ("icons", "meta"):
        if getattr(options, name) and not codec.is_json(getattr(options, name)):
            raise _option_error(options, name, "must be JSON data")


APPS = "io.modelcontextprotocol/ui"
SKILLS = "io.modelcontextprotocol/skills"
"""Extensions of MCP that resources belong to."""
APP_SCHEME = "ui://"
VISIBILITIES = ("model", "app")


def _check_ui(options: ToolOptions, ui: Any) -> None:
    """Raise InvalidToolError unless this names the page of a tool, and who calls the tool."""
    given: Any = {"resourceUri": ui} if isinstance(ui, str) else ui
    if not isinstance(given, Mapping) or given.keys() - {"resourceUri", "visibility"}:
        raise _option_error(options, "ui", "must be a URI, or a dict with resourceUri and visibility")
    uri, visibility = given.get("resourceUri"), given.get("visibility", VISIBILITIES)
    is_uri = isinstance(uri, str) and re.fullmatch(f"{APP_SCHEME}[!-~]+", uri) is not None
    if not is_uri and not (uri is None and "visibility" in given):
        raise _option_error(options, "ui", "must be the URI of an app, such as 'ui://orders/board'")
    is_list = isinstance(visibility, list | tuple)
    if not is_list or not visibility or not all(item in VISIBILITIES for item in visibility):
        raise _option_error(options, "ui", "must have a visibility of 'model', 'app' or both")
    if "ui" in options.meta:
        raise InvalidToolError("Option 'ui' is given twice, also by 'meta'", tool=_name_of(options))


def is_result_budget(tokens: Any) -> bool:
    """Return whether this is a number of tokens that results can be held to."""
    return isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= MIN_RESULT_TOKENS


def _option_error(
    options: ToolOptions, option: str, problem: str, hint: str | None = None
) -> InvalidToolError:
    text = f"Option '{option}' {problem}, got {getattr(options, option)!r:.80}"
    return InvalidToolError(text, tool=_name_of(options), hint=hint)


def _name_of(options: ToolOptions) -> str | None:
    return options.name if isinstance(options.name, str) else None


NO_OPTIONS = ToolOptions()

"""Definitions of tools: name, description, schemas, annotations, options, and the rules for them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache, cached_property
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypedDict, Union, get_args, get_origin, get_type_hints

from toolcrib.errors import (
    NO_LOCATION,
    ConfigurationError,
    DefinitionError,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    Location,
    suggest,
)
from toolcrib.validation import codec
from toolcrib.validation import validator as validation
from toolcrib.validation.schema_tree import HEADER_MARK, Mirrored, mirrored_parameters

# --- text that models read: nothing invisible, no control characters, nothing huge -----------------------

MAX_DESCRIPTION_BYTES = 64 * 1024
MAX_SCHEMA_BYTES = 1024 * 1024
"""The limit for all texts of a schema together."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_REFUSED = {"Cc": "control", "Cf": "invisible", "Co": "private-use", "Cs": "surrogate"} | dict.fromkeys(
    ("Zl", "Zp"), "line-breaking"
)
# Characters without a glyph that Unicode counts among letters and marks, or has not assigned. Among them are
# the tags, which spell hidden ASCII.
_INVISIBLE = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_JOINERS = frozenset("\u200c\u200d")  # emoji, Persian and Indic scripts need them
# They select the form of the character before them: colour emoji, Mongolian letters, variants of ideographs.
_SELECTORS = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"


def find_hidden(text: str) -> str | None:
    """Return a name for the first invisible or control character, or None."""
    text = text.replace("\r\n", "\n")
    if text.isascii():
        found = _CONTROL.search(text)
        return f"control character U+{ord(found.group()):04X}" if found else None
    # Compiled here, by the cache of `re`: most programs have no such text, and compiling takes a while.
    invisible, selectors = re.compile(_INVISIBLE), re.compile(_SELECTORS)
    before = ""
    for index, character in enumerate(text):
        if character.isascii():
            kind = "control" if _CONTROL.match(character) else None
        elif character in _JOINERS:
            kind = None if _joins(before, text[index + 1 : index + 2]) else "invisible"
        elif selectors.match(character):
            kind = None if _is_visible(before) else "invisible"
        elif invisible.match(character):
            kind = "invisible"
        else:
            kind = _REFUSED.get(unicodedata.category(character))
        if kind is not None:
            return f"{kind} character U+{ord(character):04X}"
        before = character
    return None


def _joins(before: str, after: str) -> bool:
    """Return whether a joiner is where scripts and emoji need one. Rows of them spell hidden text."""
    is_needed = not before.isascii() or not after.isascii()
    return is_needed and before != "" and not before.isspace() and before not in _JOINERS


def _is_visible(character: str) -> bool:
    return character.isprintable() and not character.isspace() and not re.match(_SELECTORS, character)


def check_text(text: str, what: str, tool: str | None = None) -> None:
    """Raise DefinitionError where `text` has invisible characters or is too long."""
    if len(text) > MAX_DESCRIPTION_BYTES // 4 and _count_bytes(text) > MAX_DESCRIPTION_BYTES:
        raise DefinitionError(f"{what} is longer than {MAX_DESCRIPTION_BYTES // 1024} KiB", tool=tool)
    hidden = find_hidden(text)
    if hidden is not None:
        article = "an" if hidden.startswith("i") else "a"
        raise DefinitionError(
            f"{what} contains {article} {hidden}", tool=tool, hint="remove it: readers cannot see it"
        )


def check_schema_text(schema: Mapping[str, Any], what: str, tool: str | None = None) -> None:
    """Check every name and text in a schema: models read them all."""
    total = 0
    for text in _strings(schema):
        check_text(text, what, tool)
        total += len(text)
        if total > MAX_SCHEMA_BYTES:
            message = f"{what} has more than {MAX_SCHEMA_BYTES // 1024} KiB of text"
            raise DefinitionError(message, tool=tool, hint="shorten descriptions, or split the tool")


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _strings(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            yield from (key for key in item if isinstance(key, str))
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)


# --- names -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameRule:
    """A rule for tool names: a pattern for the whole name, and a length, which is checked first."""

    label: str
    pattern: re.Pattern[str]
    max_length: int
    description: str

    def check(self, name: object, source: Location = NO_LOCATION) -> str:
        if not isinstance(name, str):
            raise InvalidToolError(f"Tool name must be string, got {type(name)}", source=source)
        if not 1 <= len(name) <= self.max_length:
            message = f"Tool name length must be 1-{self.max_length} chars, got {len(name)}"
            raise InvalidNameError(message, tool=name[: self.max_length], source=source)
        if self.pattern.fullmatch(name) is None:
            shown = name if name.isprintable() else name.encode("unicode_escape").decode()
            message = f"Tool name '{shown}' invalid ({self.description})"
            raise InvalidNameError(message, tool=shown, source=source, hint=self._suggest(name))
        return name

    def _suggest(self, name: str) -> str:
        """Return the hint for a name that is not permitted: the character, and a name that is."""
        wrong = next((letter for letter in name if not self.pattern.fullmatch(f"a{letter}")), name[0])
        called = unicodedata.name(wrong, f"U+{ord(wrong):04X}")
        problem = f"'{wrong}' ({called}) is not" if wrong.isprintable() else f"{called} is not"
        plain = unicodedata.normalize("NFKD", name.translate(_LETTERS)).encode("ascii", "ignore").decode()
        plain = re.sub(r"\W+", "_", plain).strip("_")
        plain = plain if self.pattern.fullmatch(plain) else plain.lower()
        advice = f"name it '{plain}'" if self.pattern.fullmatch(plain) else "give it another: name=..."
        return f"{problem} permitted in a name; {advice}"


_LETTERS = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "Ä": "Ae",
        "Ö": "Oe",
        "Ü": "Ue",
        "ß": "ss",
        "æ": "ae",
        "ø": "o",
        "ł": "l",
    }
)
"""Letters that do not become the usual ASCII ones by dropping their accents."""


STRICT = NameRule(
    "strict", re.compile(r"[a-z][a-z0-9_]*"), 50, "must be lowercase, alphanumeric, underscores"
)
PORTABLE = NameRule(
    "portable", re.compile(r"[A-Za-z0-9_-]+"), 64, "must contain only letters, digits, underscores, hyphens"
)
MCP = NameRule(
    "mcp",
    re.compile(r"[A-Za-z0-9_.-]+"),
    128,
    "must contain only letters, digits, underscores, hyphens, dots",
)
URI = NameRule("uri", re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+"), 8192, "must be a URI")
"""Resources are named by their URIs."""
NAME_RULES: Mapping[str, NameRule] = MappingProxyType({rule.label: rule for rule in (STRICT, PORTABLE, MCP)})


def shorten_name(name: str, max_length: int) -> str:
    """Shorten a name that is too long to its first and last letters, with a digest of it in between."""
    if len(name) <= max_length:
        return name
    mark = codec.digest(name)[:8]
    room = max_length - len(mark) - 2
    head = room - room // 2
    return f"{name[:head]}_{mark}_{name[len(name) - room // 2 :]}"


# --- options ---------------------------------------------------------------------------------------

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
_LATER = dict.fromkeys(("Tasks", "Timeouts"), Any)
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


# --- annotations -----------------------------------------------------------------------------------

_BOOLEAN_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def find_wrong_annotations(annotations: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the annotations of a wrong type, each with the type that MCP requires."""
    wrong = [
        (key, "true or false")
        for key in _BOOLEAN_HINTS
        if key in annotations and not isinstance(annotations[key], bool)
    ]
    if "title" in annotations and not isinstance(annotations["title"], str):
        wrong.append(("title", "a string"))
    return wrong


# --- definitions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolDefinition:
    """The definition of a tool as clients see it, with metadata that only toolcrib uses.

    `description` is the text of the docstring without the parts that are published in schemas. `returns` and
    `raises` keep the Returns and Raises sections, see `standalone_description`.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: Mapping[str, Any] | None = None
    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: Location = NO_LOCATION
    returns: str = ""
    raises: tuple[tuple[str, str], ...] = ()
    icons: Sequence[Mapping[str, Any]] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """Return the tool as MCP 2026-07-28 lists it, without metadata and tags."""
        wire: dict[str, Any] = {"name": self.name}
        if self.title is not None:
            wire["title"] = self.title
        if self.description:
            wire["description"] = self.description
        wire["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            wire["outputSchema"] = self.output_schema
        if self.annotations:
            wire["annotations"] = self.annotations
        if self.icons:
            wire["icons"] = self.icons
        if self.meta:
            wire["_meta"] = self.meta
        return wire

    @property
    def app_uri(self) -> str | None:
        """The URI of the page that shows the results of the tool."""
        ui = self.meta.get("ui")
        uri = ui.get("resourceUri") if isinstance(ui, Mapping) else None
        return uri if isinstance(uri, str) else None

    @property
    def is_for_model(self) -> bool:
        """Whether hosts show the tool to models: one with the visibility "app" is for its page only."""
        ui = self.meta.get("ui") if self.meta else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list | tuple) or "model" in visibility

    @cached_property
    def mirrored(self) -> Mirrored:
        """The arguments that clients repeat in headers: path and label."""
        try:
            if f'"{HEADER_MARK}"'.encode() not in codec.write(self.input_schema):
                return {}  # nearly always
        except (TypeError, ValueError):
            pass  # not plain data, which is reported elsewhere
        return mirrored_parameters(self.input_schema)

    @cached_property
    def standalone_description(self) -> str:
        """The description with Returns and Raises, for readers that get no output schema."""
        if self.output_schema is None:
            return self.description
        return publish_docs(self.description, self.returns, self.raises, None)[0]

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical definition."""
        return codec.digest(self.to_wire())


def publish_docs(
    description: str,
    returns: str,
    raises: Sequence[tuple[str, str]],
    output_schema: Mapping[str, Any] | None,
    *,
    is_explicit: bool = False,
) -> tuple[str, Mapping[str, Any] | None]:
    """Return the description and the output schema with the Returns and Raises sections of a docstring.

    This is the only place that decides where they go: Returns to the description of the output schema,
    unless the author wrote that schema; where there is none, both to the end of the tool's description.
    """
    if output_schema is not None:
        if returns and not is_explicit:
            returns = join_descriptions(returns, output_schema.get("description"))
            output_schema = {**output_schema, "description": returns}
        return description, output_schema
    sections = [f"Returns: {returns}"] if returns else []
    if raises:
        lines = [f"- {name}: {text}" if text else f"- {name}" for name, text in raises]
        sections.append("\n".join(["Raises:", *lines]))
    if sections and description and "\n" not in description and description[-1].isalnum():
        description += "."  # docstring parsing removes the full stop of a single sentence
    return "\n\n".join([description, *sections] if description else sections), None


def join_descriptions(description: str, class_description: str | None) -> str:
    """Join the description of a parameter, field or result with that of its class."""
    if not class_description or class_description == description:
        return description
    return f"{description}\n\n{class_description}"


def check_input_schema(schema: Any, name: str) -> Mapping[str, Any]:
    """Return the schema, or raise where arguments cannot be checked against it."""
    if not isinstance(schema, Mapping):
        raise InvalidSchemaError(f"The input schema of tool '{name}' must be a dict", tool=name)
    if schema.get("type") != "object":
        raise InvalidSchemaError(
            f"The input schema of tool '{name}' must have type='object'",
            tool=name,
            hint="arguments are an object; put other values in a property",
        )
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(
            f"The input schema of tool '{name}' is invalid: {error}", tool=name, hint=error.hint
        ) from None
    return schema


# --- public checks, whose names and messages are fixed by a requirement -------------------------------


def validate_tool_schema(schema: Any) -> None:
    """Raise InvalidSchemaError unless `schema` is a JSON Schema for a tool's arguments."""
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"Invalid schema: {error}", hint=error.hint) from None
    if schema.get("type") != "object":
        raise InvalidSchemaError("Tool schema must be of type 'object'")
    if "properties" not in schema:
        raise InvalidSchemaError("Tool schema must have 'properties' field")


def validate_tool_definition(tool: Any) -> None:
    """Raise DefinitionError unless `tool` has a name, a description and a valid schema.

    Accepts anything with `name`, `description` and `input_schema` (or `inputSchema`).
    """
    if not getattr(tool, "name", None):
        raise DefinitionError("Tool name is required")
    if not isinstance(tool.name, str):
        raise InvalidToolError(f"Tool name must be string, got {type(tool.name)}")
    if not getattr(tool, "description", None):
        raise DefinitionError("Tool description is required", tool=tool.name)
    schema = getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None)
    try:
        validation.check_schema(schema)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(f"Invalid schema: {error}", tool=tool.name, hint=error.hint) from None
    if re.fullmatch(r"[a-zA-Z0-9_]+", tool.name) is None:
        raise InvalidNameError(
            "Tool name must contain only letters, numbers, and underscores", tool=tool.name
        )

"""Lint rules for names, descriptions, parameters, results and annotations, and for similar tools.

Tools are not compared with every other tool, only with those that share a key. The rules know English verbs
at the start of a name. Clients use hints to decide whether to ask the user.
"""

from __future__ import annotations

import ast
import dis
import inspect
import json
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from toolcrib.catalog.lint.rule import LintedTool, Problem, quote, word_set
from toolcrib.context import find_attribute
from toolcrib.definition import find_wrong_annotations
from toolcrib.errors import InvalidSchemaError
from toolcrib.names import STRICT
from toolcrib.schema.parameters import docstring_of
from toolcrib.validation.validator import Validator

# --- similar tools ------------------------------------------------------------------------------------

_SIMILAR = 0.6
"""The share of longer words in common, verbs apart, from which on two descriptions say the same."""
_SAME_VERBS = {
    verb: group.split()[0]
    for group in (
        "get fetch retrieve obtain",
        "delete remove erase",
        "update edit modify",
        "search find lookup",
    )
    for verb in group.split()
}
_VERBS = tuple(_SAME_VERBS)
_ANY_WORD = re.compile(r"\w+")
_LONG_WORD = re.compile(r"\w{4,}")


def find_same_descriptions(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find descriptions that are equal except for case, punctuation and blanks."""
    first: dict[str, LintedTool] = {}
    for tool in tools:
        key = " ".join(_ANY_WORD.findall(tool.description.lower()))
        if " " not in key or tool.is_static:  # the files of a folder share theirs
            continue
        earlier = first.setdefault(key, tool)
        if earlier.name != tool.name:
            message = f"'{tool.name}' has the same description as '{earlier.name}'{_location(earlier, tool)}"
            yield tool, Problem(message)


def find_near_duplicates(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find names that are spelled differently, or begin with another verb for the same: get, fetch, retrieve.

    Similar descriptions alone say nothing: families of tools have them (get and list, create and update).
    """
    by_letters: dict[str, LintedTool] = {}
    by_words: dict[tuple[str, ...], LintedTool] = {}
    for tool in tools:
        words = tool.name_words
        if tool.name.startswith("_") or tool.is_static:  # a helper of the tool without the underscore
            continue
        spelled = by_letters.setdefault("".join(words), tool)
        verb = "".join(words[:1])
        named = by_words.setdefault((_SAME_VERBS.get(verb, verb), *words[1:]), tool)
        if spelled.name != tool.name:
            yield tool, _near_duplicate(spelled, tool)
        elif named.name != tool.name and _say_the_same(named, tool):
            yield tool, _near_duplicate(named, tool)


def _say_the_same(one: LintedTool, other: LintedTool) -> bool:
    words, others = (
        {word for word in _LONG_WORD.findall(tool.description.lower()[:2_000]) if not word.startswith(_VERBS)}
        for tool in (one, other)
    )
    is_similar = 2 * len(words & others) >= _SIMILAR * (len(words) + len(others))
    return one.parameters.keys() == other.parameters.keys() and is_similar


def _near_duplicate(earlier: LintedTool, later: LintedTool) -> Problem:
    where = _location(earlier, later)
    return Problem(f"The names of '{later.name}' and '{earlier.name}' are nearly the same{where}")


def _location(earlier: LintedTool, later: LintedTool) -> str:
    """Return where the earlier tool is, if that is another file."""
    there, here = earlier.definition.source, later.definition.source
    return f" ({there})" if there.file and there.file != here.file else ""


# --- names --------------------------------------------------------------------------------------------

_VAGUE_NAME = re.compile(
    "action|bar|call|compute|data|do|execute|foo|func|function|get|handle|handler|helper|main|method|misc|"
    "my_function|my_tool|process|query|run|set|stuff|task|test|thing|tool|util|utils|work|.",
    re.IGNORECASE,
)
# The property names that the strictest of the large providers accepts.
_PORTABLE_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def find_look_alike_names(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    """Find names and aliases that look like another tool's: `delete_all` and `de1ete_all`."""
    first: dict[str, tuple[str, LintedTool]] = {}
    for tool in tools:
        for name in () if tool.is_static else (tool.name, *tool.tool.options.aliases):
            other, earlier = first.setdefault(skeleton(name), (name, tool))
            if earlier.name.casefold() != tool.name.casefold():
                text = f"The name '{name}' looks like '{other}' of another tool{_location(earlier, tool)}"
                yield tool, Problem(text)


def skeleton(name: str) -> str:
    """Return a form that is equal for names that look alike."""
    name = name.replace("I", "l").replace("1", "l").replace("0", "o").replace("O", "o")
    return name.casefold().replace("rn", "m")


def find_long_name(tool: LintedTool) -> Iterator[Problem]:
    name = tool.name
    if tool.tool.long_name is None and len(name) > STRICT.max_length:
        yield Problem(f"The name '{name}' has {len(name)} characters")


def find_name_style(tool: LintedTool) -> Iterator[Problem]:
    name = tool.name
    if STRICT.pattern.fullmatch(name) is None:
        yield Problem(f"The name '{name}' is not in snake_case", f"call it '{to_snake_case(name)}'")


def find_vague_name(tool: LintedTool) -> Iterator[Problem]:
    if _VAGUE_NAME.fullmatch(tool.name):
        yield Problem(f"The name '{tool.name}' does not say what the tool does")


def find_odd_parameter_names(tool: LintedTool) -> Iterator[Problem]:
    for name in tool.parameters:
        if _PORTABLE_PARAMETER.fullmatch(name) is None:
            shown = name if len(name) <= 64 else f"{name[:61]}..."
            yield Problem(
                f"The name of parameter '{shown}' of '{tool.name}' is refused by some providers",
                f"call it '{to_snake_case(name, 'value')[:64]}'",
                name,
            )


def to_snake_case(name: str, prefix: str = "tool") -> str:
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    text = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return f"{prefix}_{text}".rstrip("_") if not text or text[0].isdigit() else text


# --- descriptions -------------------------------------------------------------------------------------

MIN_DESCRIPTION = 10
MAX_DESCRIPTION = 500
HUGE_DESCRIPTION_BYTES = 8 * 1024
_FILLER = frozenset({"a", "an", "the", "this", "tool", "function", "to", "for", "of"})
_EXAMPLE_WORDS = ("example", "ejemplo", "beispiel", "exemple", "esempi", "e.g.", "for instance", "such as")
_EXAMPLE_SIGNS = (*_EXAMPLE_WORDS, ">>>", "```")
_CALL = re.compile(r"\w\((?:[^()\n]*=[^()\n]*|\"[^()\n]*\")\)")


def find_missing_docstring(tool: LintedTool) -> Iterator[Problem]:
    if not tool.description and _could_have_docstring(tool):
        yield Problem(f"Tool '{tool.name}' has no docstring; models have only its name to go by")


def find_missing_description(tool: LintedTool) -> Iterator[Problem]:
    is_tool = tool.tool.kind == "tool"
    if not tool.description and not tool.is_static and not (is_tool and _could_have_docstring(tool)):
        readers = "models have" if is_tool else "users and models have"
        hint = None if is_tool else "write a docstring, or give description=..."
        yield Problem(f"{tool.tool.label} has no description; {readers} only its name to go by", hint)


def _could_have_docstring(tool: LintedTool) -> bool:
    return not tool.has_own_schema and not (docstring_of(tool.tool.handler) or "").strip()


def find_repeated_name(tool: LintedTool) -> Iterator[Problem]:
    if tool.description and _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' only repeats its name")


def find_short_description(tool: LintedTool) -> Iterator[Problem]:
    length = len(tool.description)
    if length and sum(map(_weigh, tool.description)) < MIN_DESCRIPTION and not _repeats_name(tool):
        yield Problem(f"The description of '{tool.name}' has only {length} character{'s' * (length > 1)}")


def _weigh(letter: str) -> int:
    """Return how many Latin letters one counts as: scripts of Asia need fewer for the same words."""
    return 3 if unicodedata.east_asian_width(letter) in "WF" else 2 if "\u0590" <= letter <= "\u17ff" else 1


def _repeats_name(tool: LintedTool) -> bool:
    if len(tool.description) > 40 + 2 * len(tool.name):
        return False
    words = set(re.findall(r"\w+", tool.description.lower().replace("_", " "))) - _FILLER
    return words <= set(to_snake_case(tool.name).split("_")) - _FILLER


def find_huge_description(tool: LintedTool) -> Iterator[Problem]:
    size = _count_bytes(tool.description)
    if size > HUGE_DESCRIPTION_BYTES:
        yield Problem(f"The description of '{tool.name}' takes {size // 1024} KiB of every context window")


def find_long_description(tool: LintedTool) -> Iterator[Problem]:
    length = len(tool.description)
    if length > MAX_DESCRIPTION and _count_bytes(tool.description) <= HUGE_DESCRIPTION_BYTES:
        yield Problem(f"The description of '{tool.name}' has {length} characters")


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def find_missing_example(tool: LintedTool) -> Iterator[Problem]:
    """Ask for an example only if a call is not obvious: a structured parameter is required."""
    if not tool.description:
        return  # reported already
    needed = [schema for name, schema in tool.parameter_schemas.items() if name in tool.required]
    if not any(map(_is_structured, needed)):
        return
    if any(sign in tool.lower_text for sign in _EXAMPLE_SIGNS) or _CALL.search(tool.joined_text):
        return
    if not any(schema.get("examples") for schema in tool.parameter_schemas.values()):
        own = 'give the schema "examples", or add an example to the description'
        yield Problem(f"No example shows how to call '{tool.name}'", own if tool.has_own_schema else None)


def _is_structured(schema: Mapping[str, Any]) -> bool:
    return "$ref" in schema or schema.get("type") == "object" or bool(schema.get("properties"))


# --- cost ---------------------------------------------------------------------------------------------

COSTLY_TOOL = 1_000
COSTLY_LIST = 10_000
"""The number of tokens beyond which a server may offer a search instead of its list."""


def find_costly_tool(tool: LintedTool) -> Iterator[Problem]:
    if tool.token_count > COSTLY_TOOL and tool.definition.is_for_model:
        yield Problem(f"'{tool.name}' costs about {tool.token_count:,} tokens in every conversation")


def find_costly_list(tools: Sequence[LintedTool]) -> Iterator[tuple[LintedTool, Problem]]:
    tools = [tool for tool in tools if tool.definition.is_for_model]
    costs = [(tool.token_count, index) for index, tool in enumerate(tools)]
    total = sum(cost for cost, _ in costs)
    if total > COSTLY_LIST:
        largest = sorted(costs, reverse=True)[:3]
        shown = ", ".join(f"'{tools[index].name}' ({cost:,})" for cost, index in largest)
        message = f"The list of {len(tools):,} tools costs about {total:,} tokens; largest: {shown}"
        yield tools[largest[0][1]], Problem(message)


# --- hints --------------------------------------------------------------------------------------------

_DESTRUCTIVE = word_set(
    "delete remove drop destroy erase purge wipe truncate kill terminate uninstall revoke reset"
    " unlink overwrite shred deprovision prune evict rm"
)
_EXTERNAL_EFFECT = word_set(
    "send pay transfer publish post email tweet refund charge purchase buy sell order withdraw deploy"
    " merge push release broadcast wire donate trade"
)
_RISKY = _DESTRUCTIVE | _EXTERNAL_EFFECT | {"execute", "exec", "eval", "shell"}
_RISKY_ALONE = _DESTRUCTIVE | {"send", "pay", "exec", "eval"}
_RISKY_AFTER_NAMESPACE = _DESTRUCTIVE | {"send", "pay", "execute", "publish", "deploy"}
_RISKY_AT_END = _DESTRUCTIVE - {"reset"}
_NOUNS_AT_END = frozenset({"status", "history", "list", "info", "count", "schema"})
_READS = word_set(
    "get list find search read show describe count lookup view inspect browse peek summarize query check"
    " fetch"
)


def find_unmarked_risk(tool: LintedTool) -> Iterator[Problem]:
    verb = _risky_verb(tool)
    annotations = tool.definition.annotations
    is_marked = any(isinstance(annotations.get(hint), bool) for hint in ("readOnlyHint", "destructiveHint"))
    if verb is not None and not is_marked:
        yield Problem(
            f"'{tool.name}' sounds destructive ('{verb}') and is not marked as such or as harmless",
            'set annotations {"destructiveHint": true}, or false where it can be undone'
            if tool.has_own_schema
            else None,
        )


def find_invalid_annotations(tool: LintedTool) -> Iterator[Problem]:
    annotations = tool.definition.annotations
    for key, kind in find_wrong_annotations(annotations):
        value = quote(repr(annotations[key]))
        yield Problem(f"Annotation '{key}' of '{tool.name}' must be {kind}, not {value}")


def _risky_verb(tool: LintedTool) -> str | None:
    """Return the risky verb at the start of the name, or after a namespace, or at its end."""
    words = tool.name_words
    if not words or words[0] in _READS or words[-1] in _NOUNS_AT_END:
        return None
    if words[0] in _RISKY:
        return words[0] if len(words) > 1 or words[0] in _RISKY_ALONE else None
    if len(words) > 2 and words[1] in _RISKY_AFTER_NAMESPACE:
        return words[1]  # shop_delete_order
    return words[-1] if len(words) > 1 and words[-1] in _RISKY_AT_END else None


_NOT_A_TYPE = frozenset({"description", "default", "title", "examples"})


def find_undocumented_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.get("description"):
            hint = f"describe it: `{name}: ...` under Args in the docstring"
            own = "give its property a 'description'"
            noun = "Argument" if tool.tool.kind == "prompt" else "Parameter"
            message = f"{noun} '{name}' of '{tool.name}' has no description"
            yield Problem(message, own if tool.has_own_schema else hint, name)


def find_untyped_parameters(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        if not schema.keys() - _NOT_A_TYPE and _has_no_hint(tool, name):
            own = "give its property a 'type'"
            message = f"Parameter '{name}' of '{tool.name}' has no type: any value is accepted"
            kind = "Context" if name in ("ctx", "context") else "str"
            yield Problem(message, own if tool.has_own_schema else f"add a type hint: `{name}: {kind}`", name)


def _has_no_hint(tool: LintedTool, name: str) -> bool:
    """Tell a missing hint from one of Any or object, which is a decision."""
    if tool.is_described:
        return True
    parameter = tool.tool.info.signature.parameters.get(name)
    return parameter is None or parameter.annotation is inspect.Parameter.empty


def find_missing_required(tool: LintedTool) -> Iterator[Problem]:
    """Look at written schemas only: in one made from hints, the signature decides."""
    if not tool.has_own_schema or "required" in tool.definition.input_schema or not tool.parameters:
        return
    if not any("default" in schema for schema in tool.parameter_schemas.values()):
        yield Problem(f"The schema of '{tool.name}' does not say which parameters are required")


# --- choices listed in prose --------------------------------------------------------------------------

_WORD = r"[A-Za-z][\w.+-]{0,40}"
_QUOTED = rf"""(?:"{_WORD}"|'{_WORD}'|`{_WORD}`|“{_WORD}”)"""
_SEPARATOR = r"\s*(?:,\s*(?:or|and)\s|,|/|\||\bor\b)\s*"
_INTRODUCED = (
    r"(?:(?<!exactly )(?<!least )one of|(?:choices|options|(?:allowed|valid|possible|permitted|accepted)"
    r" values)(?:\s+are)?)\s*[:=(]?\s*"
)
_END = r"(?=\s*(?:[.;)\]](?!\w)|$|\n|[,(\[]\s*default|by default))"
_BEFORE_QUOTED = rf"(?:^|[:(]\s*|\b(?:be|is|either)\s+|{_INTRODUCED})"
_CHOICES = (
    re.compile(rf"{_BEFORE_QUOTED}(?P<list>{_QUOTED}(?:{_SEPARATOR}{_QUOTED})+){_END}", re.IGNORECASE),
    re.compile(rf"\b{_INTRODUCED}(?P<list>{_WORD}(?:{_SEPARATOR}{_WORD})+){_END}", re.IGNORECASE),
    re.compile(rf"(?:^|\()(?P<list>{_WORD}(?:\s*\|\s*{_WORD})+){_END}"),
    re.compile(
        r"\b(?:format|mode|order|type|kind|unit|level|status|state|sort|direction|style|visibility|priority"
        r"|severity|method|strategy|scope|role|period|interval|frequency|size|operator|algorithm|environment)s?"
        rf"\b[^.:]{{0,20}}:\s*(?P<list>{_WORD}(?:,\s*{_WORD})*,?\s+or\s+{_WORD}){_END}",
        re.IGNORECASE,
    ),
)
# A list that is not complete, or whose members can be combined
_OPEN_LIST = re.compile(
    r"\b(?:e\.?g|i\.?e|such as|for (?:example|instance)|like|examples?|common\w*|typical\w*|etc|comma"
    r"|separated|list of|multiple|combin\w+|custom|other|another|any|anything|or an?|as well as|more"
    r"|includ\w+|prefix\w*|patterns?|glob|regex|expression|placeholders?)\b|\.\.\.|…",
    re.IGNORECASE,
)
_KINDS = word_set(
    "name id ids path url uri email number string str int integer float bool boolean none null list dict"
    " object file folder date datetime username slug title the empty omitted"
)
_SECRET = re.compile(r"key|token|secret|passw|passphrase|pwd|auth|credential|bearer|cookie", re.IGNORECASE)
_MAX_CHOICES_TEXT = 400
"""A longer text explains more than one list."""


def list_choices(text: str) -> list[str]:
    """Return the alternatives that a description lists; none if the list may not be complete."""
    if len(text) > _MAX_CHOICES_TEXT or _OPEN_LIST.search(text):
        return []
    for pattern in _CHOICES:
        if found := pattern.search(text):
            items = [item.strip("\"'`“” ") for item in re.split(_SEPARATOR, found["list"])]
            choices = [item.rstrip(".") for item in dict.fromkeys(items) if item]
            if len(choices) > 1 and _KINDS.isdisjoint(map(str.lower, choices)):
                return choices
    return []


def find_prose_choices(tool: LintedTool) -> Iterator[Problem]:
    """Look at free texts, but never repeat what may be a secret."""
    for name, schema in tool.parameter_schemas.items():
        text = schema.get("description")
        if not isinstance(text, str) or not _is_free_text(schema) or _SECRET.search(f"{name} {text}"):
            continue
        choices = list_choices(text)
        if not choices or not tool.parameters.keys().isdisjoint(choices):
            continue
        if schema.get("default") in (None, "", *choices):
            listed = ", ".join(f'"{choice}"' for choice in choices)
            form = f'"enum": [{listed}]' if tool.has_own_schema else f"Literal[{listed}]"
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' accepts any string, but its description lists choices",
                f"use {form}, so that nothing else is accepted",
                name,
            )


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}


# --- the result ---------------------------------------------------------------------------------------


def find_undocumented_result(tool: LintedTool) -> Iterator[Problem]:
    """Ask for a description of data; text and records with named fields explain themselves."""
    output = tool.definition.output_schema
    if tool.definition.returns or tool.has_own_schema or output is None:
        return
    if not output.get("description") and not _has_fields(output):
        yield Problem(f"The result of '{tool.name}' is not described")


def _has_fields(schema: Mapping[str, Any]) -> bool:
    items = schema.get("items")
    return "properties" in schema or "$ref" in schema or (isinstance(items, Mapping) and _has_fields(items))


# --- contradictions -----------------------------------------------------------------------------------
#
# Schemas that no call could satisfy are refused at registration; these are the ones that mislead a caller.

_LIMITS = tuple((f"min{noun}", f"max{noun}") for noun in ("imum", "Length", "Items", "Properties"))
_CHECKED = frozenset({"type", "enum", *(key for pair in _LIMITS for key in pair)})
"""The keywords that a default is checked against; types in compositions may depend on other parameters."""


def find_unknown_required(tool: LintedTool) -> Iterator[Problem]:
    if not tool.required or tool.definition.input_schema.get("patternProperties"):
        return
    for name in sorted(tool.required - tool.parameters.keys()):
        message = f"'{tool.name}' requires {quote(name)}, which is not one of its parameters"
        yield Problem(message, parameter=name)


def _enums(tool: LintedTool) -> Iterator[tuple[str, Mapping[str, Any], list[Any] | tuple[Any, ...]]]:
    for name, schema in tool.parameter_schemas.items():
        choices = schema.get("enum")
        if isinstance(choices, list | tuple):
            yield name, schema, choices


def find_repeated_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, _, choices in _enums(tool):
        uses = Counter(json.dumps(choice, sort_keys=True, default=str) for choice in choices)
        repeated = next((text for text, count in uses.items() if count > 1), None)
        if repeated is not None:
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' lists {quote(repeated)} twice", parameter=name
            )


def find_invalid_choices(tool: LintedTool) -> Iterator[Problem]:
    for name, schema, choices in _enums(tool):
        wrong = [choice for choice in choices if not _is_valid({"type": schema.get("type")}, choice)]
        if wrong:
            shown = quote(json.dumps(wrong[0], default=str))
            message = f"Parameter '{name}' of '{tool.name}' lists {shown}, which its type does not allow"
            yield Problem(message, parameter=name)


def find_invalid_defaults(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        default = schema.get("default")
        if default is not None and not _is_valid(schema, default):  # null often stands for no default
            shown = quote(json.dumps(default, default=str))
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' has the default {shown}, which its schema refuses",
                parameter=name,
            )


def _is_valid(schema: Mapping[str, Any], value: Any) -> bool:
    """Tell whether a value fits the type, the choices and the limits of a schema, as far as that is known."""
    rules = {key: rule for key, rule in schema.items() if key in _CHECKED and rule is not None}
    try:
        return not rules or Validator(rules, trusted=True).is_valid(value)
    except (InvalidSchemaError, TypeError, ValueError):
        return True


def find_impossible_limits(tool: LintedTool) -> Iterator[Problem]:
    for name, schema in tool.parameter_schemas.items():
        for low_key, high_key in _LIMITS:
            low, high = schema.get(low_key), schema.get(high_key)
            if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
                limits = f"{low_key} {low} and {high_key} {high}"
                yield Problem(f"No value of '{name}' of '{tool.name}' satisfies {limits}", parameter=name)


# --- code ---------------------------------------------------------------------------------------------


def find_unknown_context(tool: LintedTool) -> Iterator[Problem]:
    """Find attributes that the code of a function uses and a Context does not have: `ctx.elicit`."""
    name, code = tool.tool.arguments.context, getattr(tool.tool.info.function, "__code__", None)
    waiting = [] if code is None or name not in code.co_varnames else [code]
    while waiting:
        code = waiting.pop()
        inner = [item for item in code.co_consts if isinstance(item, CodeType)]
        waiting += [item for item in inner if name in item.co_freevars]
        loaded = None
        for step in dis.get_instructions(code):
            if loaded == name and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                hint, used = find_attribute(str(step.argval)), f"{name}.{step.argval}"
                if hint is not None:
                    yield Problem(f"The code uses {used}, which a Context does not have", hint, name, used)
            loaded = step.argval if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) else None


_QUESTIONS = ("ask", "ask_all", "ask_url", "roots", "sample")
_USES = (ast.Assert, ast.Attribute, ast.BinOp, ast.Compare, ast.Expr, ast.For, ast.FormattedValue, ast.If)
_USES_OF_ANSWERS = (*_USES, ast.Subscript, ast.UnaryOp, ast.While)
"""Where an answer can stand, and a question that still has to be awaited cannot."""


def find_forgotten_awaits(tool: LintedTool) -> Iterator[Problem]:
    """Find questions of an async function that are used like their answers: `ctx.ask` without `await`."""
    name = tool.tool.arguments.context
    if name is None or not tool.tool.is_async:
        return
    try:
        text = textwrap.dedent(inspect.getsource(tool.tool.info.function))
        pending: list[ast.AST] = [ast.parse(text).body[0]]
    except (OSError, TypeError, SyntaxError):
        return
    parents: dict[ast.AST, ast.AST] = {}
    while pending:
        for child in ast.iter_child_nodes(node := pending.pop()):
            if not isinstance(child, ast.FunctionDef | ast.Lambda):  # these may run on a thread
                parents[child] = node
                pending.append(child)
    for node in parents:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=attr)) if found == name:
                if attr in _QUESTIONS and _is_forgotten(node, parents):
                    message = f"The code uses the answer of {name}.{attr} without awaiting it"
                    excerpt = text.splitlines()[node.lineno - 1].strip()
                    yield Problem(message, f"write `await {name}.{attr}(...)`", name, excerpt)


def _is_forgotten(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether a question, or every use of the variable that holds it, is used as its answer."""
    is_question, parent = isinstance(node, ast.Call), parents[node]
    while isinstance(parent, ast.BoolOp | ast.IfExp):
        is_last = node is not parent.test if isinstance(parent, ast.IfExp) else node is parent.values[-1]
        if not is_last:
            return True  # whether it is true is asked of the answer
        node, parent = parent, parents[parent]
    match parent:
        case ast.Assign(targets=[ast.Name(id=variable)]) | ast.AnnAssign(target=ast.Name(id=variable)):
            names = [item for item in parents if isinstance(item, ast.Name) and item.id == variable]
            uses = [item for item in names if isinstance(item.ctx, ast.Load)]
            return is_question and all(_is_forgotten(item, parents) for item in uses)
    return isinstance(parent, _USES_OF_ANSWERS)

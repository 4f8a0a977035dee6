"""Docstrings as data: Google, NumPy and reST (or Epydoc), recognised by their content.

No word is lost: entries for parameters, results, errors and tags are taken out, and every other line stays
in the description, in its order. Whether a documented parameter exists is checked elsewhere. Only the
standard library is imported, because this is loaded at start-up; no type in a docstring is evaluated.
"""

from __future__ import annotations

import ast
import operator
import re
from functools import reduce
from itertools import compress, count, product
from types import GenericAlias, NoneType
from typing import Any, Literal, NamedTuple

# --- text --------------------------------------------------------------------------------------------
# A cleaned line is plain spaces, then text without trailing space; an empty one is "". Quantifiers are
# possessive where they may meet a long run: docstrings may be hostile, and the time spent on them must not
# grow faster than their length.

_STRUCTURE = re.compile(r"[-*+•] |---|===|#{1,6} |\d{1,3}[.)] |>>> |\.\.\. |```|~~~|\|")
_LABEL = re.compile(r"\w[\w ]{0,30}:(?:\s|$)")
_SENTENCE_END = re.compile(r"[.!?][\"')\]`*]*+\s++[\"'(\[`*]*+(\S)")
_DOTTED_LETTERS = re.compile(r"(?<!\w)\w\.(?:\w\.){1,4}$")
_MARGIN = re.compile(r"(\n *+)[^ \n]")
_ODD_SPACES = "\t\v\f\x1c\x1d\x1e\x1f"
_MANY_BREAKS = re.compile(r"\n{3,}")

_NEVER_LAST = frozenset(("e.g", "i.e", "vs", "cf", "approx", "dr", "mr", "mrs", "ms", "prof", "fig", "eq"))


def clean_lines(text: str) -> list[str]:
    """Split a docstring into lines without the indentation that all but the first share."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and not any(map(text.__contains__, _ODD_SPACES)):  # as nearly always
        # As whole texts: a look at every line takes twice as long.
        shown = _MARGIN.search(text)
        prefix = "\n" if shown is None else shown[1]
        if text.count(prefix) + text.count("\n\n") == text.count("\n"):  # every line has it or is empty
            cut = text.replace(prefix, "\n").strip(" ")
            lines = cut.split("\n")
            return lines if " \n" not in cut else [line.rstrip() for line in lines]
    first, *others = text.split("\n")
    measured: list[tuple[int, str]] = []
    margin = None
    for line in others:
        body = line.lstrip()
        indent = len(line) - len(body)
        if body and indent and "\t" in line:
            indent = len(line[:indent].expandtabs())
        if body and (margin is None or indent < margin):
            margin = indent
        measured.append((indent, body.rstrip()))
    margin = margin or 0
    return [first.strip(), *[" " * (indent - margin) + body if body else "" for indent, body in measured]]


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def trim(block: list[str]) -> list[str]:
    """Remove empty lines at both ends."""
    start, end = 0, len(block)
    while start < end and not block[start]:
        start += 1
    while end > start and not block[end - 1]:
        end -= 1
    return block[start:end]


def find_block_end(lines: list[str], start: int, level: int) -> int:
    """Return the index after the lines that are empty or deeper than `level`."""
    deeper = " " * (level + 1)
    for end in range(start, len(lines)):
        if lines[end] and not lines[end].startswith(deeper):
            return end
    return len(lines)


def flow(first: str, rest: list[str]) -> str:
    """Join a text and its continuation lines: wrapped prose becomes one line, lists and code keep their
    form."""
    filled = [indent_of(line) for line in rest if line]
    if not filled:
        return first
    margin = min(filled)
    # The first continuation line sets the indent of its paragraph.
    level = filled[0] if rest[0] else margin
    pieces = [first]
    is_formatted = is_fenced = after_blank = False
    for line in rest:
        if not line:
            after_blank = True
            continue
        body = line.lstrip(" ")
        if after_blank:
            is_formatted, level = is_fenced, margin
        is_deeper = len(line) - len(body) > level
        is_formatted = is_formatted or is_deeper or _STRUCTURE.match(body) is not None
        if body.startswith(("```", "~~~")):
            is_fenced = not is_fenced
        pieces.append("\n\n" if after_blank else "\n" if is_formatted else " ")
        pieces.append(line[margin:] if is_formatted else body)
        after_blank = False
    return "".join(pieces).strip()


def join_prose(lines: list[str]) -> str:
    """Join the lines of a description, with at most one empty line in a row."""
    prose = "\n".join(lines)
    return (_MANY_BREAKS.sub("\n\n", prose) if "\n\n\n" in prose else prose).strip()


def finish_sentence(prose: str) -> str:
    """Return a single sentence on one line without its full stop, anything longer as it is."""
    sentence = prose
    if "\n\n" in prose:
        return prose
    if "\n" in prose:
        lines = prose.split("\n")
        if any(map(_stands_alone, lines)):
            return prose
        sentence = " ".join(lines)
    if _has_more_sentences(sentence):
        return prose
    if (
        not sentence.endswith(".")
        or sentence.endswith(("..", " etc."))
        or _DOTTED_LETTERS.search(sentence[-12:])
    ):
        return sentence
    return sentence[:-1].rstrip() or sentence


def _stands_alone(line: str) -> bool:
    """Whether a line would lose its meaning inside a paragraph."""
    if not line or line[0] == " " or _STRUCTURE.match(line):
        return True
    return line[0].isupper() and _LABEL.match(line) is not None


def _has_more_sentences(text: str) -> bool:
    for end in _SENTENCE_END.finditer(text):
        if end[1].isupper():
            before = text[max(0, end.start() - 8) : end.start()].split()
            if not before or before[-1].lower().lstrip("(\"'") not in _NEVER_LAST:
                return True
    return False


# --- types -------------------------------------------------------------------------------------------

_MAX_TYPE_TEXT = 500
_ROLE = re.compile(r":(?:[a-z]{1,12}:){1,2}(?=`)")
_QUALIFIER = re.compile(
    r"\*?(?:optional|required|keyword[- ]only|positional[- ]only)\*?(?: *+\(?defaults?\b.*)?|defaults?\b.*",
    re.I,
)
_TRAILING_DEFAULT = re.compile(r"\((?:optional|defaults?\b[^()]*+)\)$", re.I)
_TOKEN = re.compile(r"'[^']*+'|\"[^\"]*+\"|[\[({\])}]|,")
_LIST_OF = re.compile(r"list of (\w+?)s?", re.I)
_BUILTINS: dict[str, Any] = {
    "str": str,
    "string": str,
    "int": int,
    "integer": int,
    "float": float,
    "number": float,
    "bool": bool,
    "boolean": bool,
    "list": list,
    "dict": dict,
    "object": dict,
    "none": NoneType,
}


def clean_type(text: str) -> str | None:
    """Return a type without `optional`, `required` and defaults, which the signature has."""
    if "`" in text:
        text = _ROLE.sub("", text).replace("`~", "").replace("`", "")
    text = text.strip()
    if text.endswith(")"):
        text = _TRAILING_DEFAULT.sub("", text).rstrip()
    if "," in text:
        parts = _split_at_commas(text)
        kept = [part for part in parts if not _QUALIFIER.fullmatch(part)]
        text = text if len(kept) == len(parts) else ", ".join(kept)
    elif _QUALIFIER.fullmatch(text):
        return None
    return text or None


def _split_at_commas(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] == "," and depth <= 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    parts.append(text[start:].strip())
    return parts


def type_hint_of(text: str) -> object | None:
    """Return the builtin hint for the text of a simple type, None where it is not certain."""
    cleaned = clean_type(text) or ""
    if len(cleaned) > _MAX_TYPE_TEXT or "\\" in cleaned:
        return None
    if listed := _LIST_OF.fullmatch(cleaned):
        cleaned = f"list[{listed[1]}]"
    try:
        hint = _read_hint(ast.parse(cleaned, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return None
    return None if hint is NoneType else hint


def _read_hint(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="typing"), attr=name):
            return _BUILTINS.get(name.lower())
        case ast.Constant(value=None):
            return NoneType
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _unite([left, right])
        case ast.BoolOp(op=ast.Or(), values=options):  # "int or None"
            return _unite(options)
        case ast.Set(elts=values):  # {'fast', 'slow'}
            return _read_literal(values)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _read_subscript(name.lower(), parts) if parts else None
    return None


def _read_subscript(name: str, parts: list[ast.expr]) -> Any:
    if name == "literal":
        return _read_literal(parts)
    if name == "optional":
        return _unite([*parts, ast.Constant(None)])
    if name == "union":
        return _unite(parts)
    item: Any = parts[-1]
    hint = Any if getattr(item, "id", "") == "Any" else _read_hint(item)
    if hint is not None and name == "list" and len(parts) == 1:
        return GenericAlias(list, (hint,))
    if hint is not None and name == "dict" and len(parts) == 2 and _read_hint(parts[0]) is str:
        return GenericAlias(dict, (str, hint))
    return None


def _unite(options: list[ast.expr]) -> Any:
    hints = [_read_hint(option) for option in options]
    return None if None in hints else reduce(operator.or_, hints)


def _read_literal(values: list[ast.expr]) -> Any:
    found = tuple(ast.literal_eval(value) for value in values)
    return Literal[found] if all(isinstance(value, str | int | None) for value in found) else None


# --- entries and sections ----------------------------------------------------------------------------


class Documented(NamedTuple):
    """The description of a parameter, an attribute or an exception."""

    name: str
    description: str
    type: str | None = None


class Draft:
    """The entries that a reader found, and the lines that are left, in order."""

    __slots__ = ("attributes", "params", "prose", "raises", "returns", "returns_type", "tags")

    def __init__(self) -> None:
        self.prose: list[str] = []
        self.params: list[Documented] = []
        self.attributes: list[Documented] = []
        self.raises: list[Documented] = []
        self.tags: list[str] = []
        self.returns: list[str] = []
        self.returns_type: str | None = None

    def add_returns(self, text: str, type_text: str | None) -> None:
        """Add a description of the result; the type of a second one is put in front of its text."""
        if type_text and self.returns_type is None:
            self.returns_type = type_text
        elif type_text and type_text != self.returns_type and not text.startswith(type_text):
            text = f"{type_text}: {text}" if text else type_text
        if text:
            self.returns.append(text)

    def entries_of(self, kind: str) -> list[Documented]:
        if kind == "raises":
            return self.raises
        return self.params if kind == "params" else self.attributes


_SECTIONS = {
    "params": (
        "args, arguments, parameters, parameter, params, keyword args, keyword arguments, "
        "keyword parameters, other parameters, other args, other arguments"
    ),
    "returns": "returns, return, yields, yield",
    "raises": "raises",
    "attributes": "attributes",
    "tags": "tags",
}
_OTHER_SECTIONS = (
    "receives, warns, warnings, warning, notes, note, examples, example, see also, references, methods, todo"
)


def _spell(names: str) -> list[str]:
    """Return the accepted spellings: the first letter of each word may be a capital."""
    words = (name.split() for name in names.split(", "))
    return [" ".join(variant) for name in words for variant in product(*((w, w.capitalize()) for w in name))]


_TITLES = {spelling: kind for kind, names in _SECTIONS.items() for spelling in _spell(names)}
HEADERS = {f"{title}:": kind for title, kind in _TITLES.items()}
_KNOWN_TITLES = {*_TITLES, *_spell(_OTHER_SECTIONS)}

# `None` under a header means that there are no entries. The colon of `http://` or `::` does not end a name.
_NAME = r"[*`\\]*+(?!None\b)[^\W\d]\w*+[*`]*+"
_NAMES = rf"{_NAME}(?:,\s*+{_NAME})*+"
_DOTTED = r"`*+(?!None\b)[^\W\d][\w.]*+`*+"
_ERRORS = rf"{_DOTTED}(?:,\s*+{_DOTTED})*+"
_GOOGLE_TAIL = r"\s*+(?:\((.*?)\)\s*+)?:(?!//|:)\s*+(.*)"
_NUMPY_TAIL = r"(?:(\s*+):(?!//|:)\s*+(.*))?$"

_GOOGLE_ENTRY = re.compile(rf"({_NAMES}){_GOOGLE_TAIL}")
_GOOGLE_BULLET = re.compile(rf"[-*]\s++({_NAMES}){_GOOGLE_TAIL}")
_GOOGLE_ERROR = re.compile(rf"(?:[-*]\s++)?+({_ERRORS}){_GOOGLE_TAIL}")
_NUMPY_ENTRY = re.compile(rf"({_NAMES}){_NUMPY_TAIL}")
_TYPED_NUMPY = re.compile(rf"{_NAMES} : \S")
_NUMPY_ERROR = re.compile(rf"({_ERRORS}){_NUMPY_TAIL}")
_TYPE = r"`*+(?:list of )?+[^\W\d][\w.]*+(?:\[[^:]*\])?`*+"
_TYPED_RESULT = re.compile(rf"({_TYPE}(?:(?: \| | or ){_TYPE})*+):(?:\s++|$)(.*)")
_NAMED_RESULT = re.compile(rf"({_NAMES})\s++:\s++(.+)")


def split_names(names: str) -> list[str]:
    return [names] if names.isidentifier() else [name.strip(" *`\\") for name in names.split(",")]


def _collect(
    block: list[str], head: re.Pattern[str]
) -> tuple[list[str], list[tuple[tuple[Any, ...], list[str]]]]:
    """Split a block into the lines before the first entry, and the entries with their continuation lines."""
    level = indent_of(block[0])
    stray: list[str] = []
    body = stray
    entries: list[tuple[tuple[Any, ...], list[str]]] = []
    is_named = head is _GOOGLE_ENTRY or head is _GOOGLE_ERROR
    for line in block:
        at = len(line) - len(words := line.lstrip(" "))
        if words and at <= level:
            name, colon, text = words.partition(": ")
            # Most entries, without the cost of the pattern.
            if is_named and colon and name.isidentifier() and name.isascii() and name != "None":
                body = []
                entries.append(((name, None, text.lstrip()), body))
                continue
            if match := head.match(line, at):
                body = []
                entries.append((match.groups(), body))
                continue
        body.append(line)
    return [line[min(level, indent_of(line)) :] for line in stray] if stray else stray, entries


def read_tags(block: list[str]) -> list[str]:
    return [tag for line in block for tag in line.replace(",", " ").split() if tag not in ("-", "*")]


# --- Google ------------------------------------------------------------------------------------------


def opens_google(lines: list[str], number: int) -> bool:
    """Whether this header has an indented block below it."""
    below = lines[number + 1] if number + 1 < len(lines) else ""
    if below:
        return below[0] == " "
    return any(lines[number + 1 : find_block_end(lines, number + 1, 0)])


def read_google(lines: list[str], headers: list[int]) -> Draft:
    draft = Draft()
    done = 0
    for number in headers:
        draft.prose += lines[done:number]
        done = find_block_end(lines, number + 1, 0)
        block = lines[number + 1 : done]
        if block and not (block[0] and block[-1]):
            block = trim(block)
        _leave_blank(draft.prose)
        if block:
            _take_google(draft, HEADERS[lines[number]], lines[number], block)
        else:
            draft.prose.append(lines[number])
        _leave_blank(draft.prose)
    draft.prose += lines[done:]
    return draft


def _indent_entries(lines: list[str], headers: list[int]) -> list[str]:
    """Indent the arguments of headers that have them at the margin: `name (type): ...` or `name: ...`."""
    found = lines
    for header in headers:
        first = header + 1
        if lines[first : first + 1] == [""]:
            first += 1
        if HEADERS[lines[header]] != "params" or first >= len(lines) or lines[first][:1] in ("", " "):
            continue
        end = first
        while end < len(lines) and (lines[end][:1] == " " or _is_margin_entry(lines[end])):
            end += 1
        if end > first and (end == len(lines) or not lines[end]):
            found = [*found[:first], *(f"    {line}" for line in lines[first:end]), *found[end:]]
    return found


def _is_margin_entry(line: str) -> bool:
    match = _GOOGLE_ENTRY.match(line)
    return match is not None and match[1].isidentifier() and match[1] not in _KNOWN_TITLES and bool(match[3])


def _leave_blank(prose: list[str]) -> None:
    """Add an empty line, but no second one: joining the lines is faster then."""
    if prose and prose[-1]:
        prose.append("")


def _take_google(draft: Draft, kind: str, header: str, block: list[str]) -> None:
    if kind == "tags":
        draft.tags += read_tags(block)
    elif kind == "returns":
        first = block[0].lstrip(" ")
        typed = _TYPED_RESULT.match(first) if ":" in first else None
        text = flow(typed[2] if typed else first, block[1:])
        draft.add_returns(text, typed[1].replace("`", "") if typed else None)
    else:
        # Bullets are entries only where the first entry is one; else they continue an entry.
        is_bulleted = block[0].lstrip(" ").startswith(("- ", "* "))
        pattern = _GOOGLE_BULLET if is_bulleted else _GOOGLE_ENTRY
        stray, entries = _collect(block, _GOOGLE_ERROR if kind == "raises" else pattern)
        # A block without any entry is prose, and keeps its header.
        draft.prose += stray if entries else [header, *block]
        documented = draft.entries_of(kind)
        for (names, type_text, text), body in entries:
            description = flow(text, body) if body else text
            cleaned = clean_type(type_text) if type_text else None
            if names.isidentifier():
                documented.append(Documented(names, description, cleaned))
            else:
                documented += [Documented(name, description, cleaned) for name in split_names(names)]


# --- NumPy -------------------------------------------------------------------------------------------


def _is_title(lines: list[str], number: int) -> bool:
    title, underline = lines[number], lines[number + 1]
    if not underline.startswith("--") or underline.strip("-"):
        return False
    # A rule below a sentence does not make it a title.
    return title[:1].isalnum() and len(title) < 40 and title[-1] not in ".,;!?"


def read_numpy(lines: list[str], _: list[int]) -> Draft:
    draft = Draft()
    starts = [number for number in range(len(lines) - 1) if _is_title(lines, number)]
    draft.prose += lines[: starts[0]] if starts else lines
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        draft.prose.append("")
        _take_numpy(draft, lines[start].removesuffix(":"), trim(lines[start + 2 : end]))
    return draft


def _take_numpy(draft: Draft, title: str, block: list[str]) -> None:
    kind = _TITLES.get(title)
    if kind == "tags":
        draft.tags += read_tags(block)
    elif kind == "returns" and block:
        draft.add_returns(*_read_numpy_returns(block))
    elif kind is None or not block:
        draft.prose += [f"{title}:", *block]
    else:
        pattern = _NUMPY_ENTRY if kind != "raises" else _NUMPY_ERROR
        block, closing = _cut_closing_prose(block, pattern)
        stray, entries = _collect(block, pattern)
        draft.prose += stray if entries else [f"{title}:", *block]
        for found, body in entries:
            draft.entries_of(kind).extend(_document_numpy(found, body, kind))
        draft.prose += ["", *closing]


def _cut_closing_prose(block: list[str], head: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Split off paragraphs that are neither indented nor an entry, up to the next `name : type`."""
    level = indent_of(block[0])
    kept, in_prose = block[:1], False
    prose: list[str] = []
    for number in range(1, len(block)):
        line = block[number]
        if line and indent_of(line) <= level:
            is_entry = head.match(line, indent_of(line)) is not None
            if in_prose:
                in_prose = _TYPED_NUMPY.match(line, indent_of(line)) is None
            else:
                in_prose = not (is_entry or block[number - 1])
        (prose if in_prose else kept).append(line)
    return trim(kept), prose


def _document_numpy(found: tuple[Any, ...], body: list[str], kind: str) -> list[Documented]:
    names, space, type_text = found
    words = flow("", body)
    # `name: text` on one line is Google style under a NumPy title; so is `ValueError: text`.
    cleaned = clean_type(type_text) if type_text else None
    if type_text and (kind == "raises" or not (words or space or _is_type(cleaned))):
        words, cleaned = flow(type_text, body), None
    return [Documented(name, words, cleaned) for name in split_names(names)]


def _is_type(text: str | None) -> bool:
    """Whether a text after a colon is a type, and not the beginning of a sentence."""
    return text is None or " " not in text or type_hint_of(text) is not None


def _read_numpy_returns(block: list[str]) -> tuple[str, str | None]:
    """Read types with an indented description below each; anything else is a description."""
    level = indent_of(block[0])
    results: list[tuple[str, list[str]]] = []
    for line in block:
        if line and indent_of(line) <= level:
            results.append((line.lstrip(" "), []))
        else:
            results[-1][1].append(line)
    head, body = results[0]
    if len(results) > 1 and any(trim(lines) for _, lines in results):
        return "\n".join(_format_result(*result) for result in results), None
    if len(results) > 1 or not body or head[-1] in ".,:;":
        return flow(head, block[1:]), None
    if named := _NAMED_RESULT.fullmatch(head):
        return f"{named[1]}: {flow('', body)}", named[2]
    return flow("", body), head


def _format_result(head: str, body: list[str]) -> str:
    if named := _NAMED_RESULT.fullmatch(head):
        head = f"{named[1]} ({named[2]})"
    words = flow("", body)
    return f"{head}: {words}" if words else head


# --- reST --------------------------------------------------------------------------------------------

_KINDS = {
    word: kind
    for kind, words in {
        "params": "param parameter arg argument key keyword kwarg",
        "params type": "type kwtype",
        "attributes": "ivar cvar var attribute",
        "attributes type": "vartype",
        "returns": "return returns yield yields",
        "returns type": "rtype ytype",
        "raises": "raise raises except exception",
        "tags": "tags",
    }.items()
    for word in words.split()
}
_FIELD = re.compile(r"\s*+[:@](\w++)(?:\s++([^:]*+))?:(?![`:])\s*+(.*)")


def is_field(line: str) -> bool:
    match = _FIELD.match(line)
    return match is not None and match[1].lower() in _KINDS


def read_rest(lines: list[str], _: list[int]) -> Draft:
    draft = Draft()
    types: dict[tuple[str, str], str] = {}
    number, level = 0, None
    while number < len(lines):
        line = lines[number]
        match = _FIELD.match(line) if line and line[0] in " :@" else None
        kind = _KINDS.get(match[1].lower()) if match else None
        # Fields are aligned; one that is deeper than the first belongs to an example.
        if match is None or kind is None or (level is not None and indent_of(line) > level):
            draft.prose.append(line)
            number += 1
            continue
        level = indent_of(line)
        end = find_block_end(lines, number + 1, level)
        text = flow(match[3], lines[number + 1 : end])
        if _take_field(draft, types, kind, (match[2] or "").strip(), text):
            _drop_dangling_header(draft.prose, level)
            draft.prose.append("")
        else:
            draft.prose += lines[number:end]
        number = end
    _assign_types(draft, types)
    return draft


def _take_field(draft: Draft, types: dict[tuple[str, str], str], kind: str, about: str, text: str) -> bool:
    """Add one field; return False if it lacks the name of what it describes."""
    kind, _, is_type = kind.partition(" ")
    if kind == "tags":
        draft.tags += read_tags([about, text])
    elif kind == "returns":
        draft.add_returns("" if is_type else text, text if is_type else about or None)
    elif kind == "raises" and about:
        draft.raises += [Documented(name, text) for name in split_names(about)]
    elif is_type and about and (cleaned := clean_type(text)):
        types[kind, about.strip("*`\\")] = cleaned
    elif (named := _split_named_field(about)) and not is_type:
        draft.entries_of(kind).extend(Documented(name, text, named[1]) for name in named[0])
    else:
        return False
    return True


def _split_named_field(about: str) -> tuple[list[str], str | None] | None:
    """Split the content of `:param ...:`, which is a name, several names, or a type and a name."""
    names = split_names(about)
    if all(name.isidentifier() for name in names):
        return names, None
    *type_words, name = about.split() or [""]
    name = name.strip("*`\\")
    if name.isidentifier():
        return [name], clean_type(" ".join(type_words))
    name, _, type_text = about.partition(" ")
    return ([name], clean_type(type_text.strip("()"))) if name.isidentifier() else None


def _drop_dangling_header(prose: list[str], level: int) -> None:
    """Remove an `Args:` header whose whole block was fields."""
    while level and prose and not prose[-1]:
        prose.pop()
    if level and prose and prose[-1] in HEADERS:
        prose[-1] = ""


def _assign_types(draft: Draft, types: dict[tuple[str, str], str]) -> None:
    """Add each `:type x:` to its parameter; one without a parameter becomes an entry of its own."""
    for kind in ("params", "attributes"):
        entries = draft.entries_of(kind)
        for index, entry in enumerate(entries):
            if found := types.pop((kind, entry.name), None):
                entries[index] = entry._replace(type=entry.type or found)
    for (kind, name), found in types.items():
        draft.entries_of(kind).append(Documented(name, "", found))


# --- any style ---------------------------------------------------------------------------------------

Style = Literal["google", "numpy", "rest", "plain"]

_READERS = {"google": read_google, "numpy": read_numpy, "rest": read_rest}


class Docstring(NamedTuple):
    """A parsed docstring.

    `description` is everything that is not an entry; a single sentence has lost its full stop.
    `returns_type` is the word or type before the colon of `dict: the user`, or where a style has it.
    """

    style: Style = "plain"
    description: str = ""
    params: tuple[Documented, ...] = ()
    attributes: tuple[Documented, ...] = ()
    returns: str = ""
    returns_type: str | None = None
    raises: tuple[Documented, ...] = ()
    tags: tuple[str, ...] = ()


_EMPTY = Docstring()


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring. Any text is accepted: what has no known form is description."""
    if not text or text.isspace():
        return _EMPTY
    lines = trim(clean_lines(text))
    if lines[0] in HEADERS:
        _indent_first_block(lines)
    headers = list(compress(count(), map(HEADERS.__contains__, lines)))
    style, draft = _read(_indent_entries(lines, headers), headers)
    prose = join_prose(draft.prose)
    return Docstring(
        style,
        finish_sentence(prose),
        tuple(draft.params),
        tuple(draft.attributes),
        "\n\n".join(draft.returns),
        draft.returns_type,
        tuple(draft.raises),
        tuple(draft.tags),
    )


def _read(lines: list[str], headers: list[int]) -> tuple[Style, Draft]:
    """Read the lines in their style; of several possible ones, the one that finds most parameters."""
    styles = _find_styles(lines, headers)
    if len(styles) == 1:
        return styles[0], _READERS[styles[0]](lines, headers)
    if not styles:
        draft = Draft()
        draft.prose = lines
        return "plain", draft
    drafts = [(style, _READERS[style](lines, headers)) for style in styles]
    return max(drafts, key=lambda found: len(found[1].params))


def _find_styles(lines: list[str], headers: list[int]) -> list[Style]:
    """Return the styles that a text may have, the most certain one first."""
    text = "\n".join(lines)
    google = any(opens_google(lines, number) for number in headers)
    # Cheap tests first: the other styles are rare.
    numpy = ("-" in text and "\n--" in text) and any(
        line.removesuffix(":") in _KNOWN_TITLES and _is_title(lines, number)
        for number, line in enumerate(lines[:-1])
    )
    rest = ("@" in text or " :" in text or "\n:" in text or text[:1] == ":") and any(map(is_field, lines))
    found: list[tuple[bool, Style]] = [(numpy, "numpy"), (google, "google"), (rest, "rest")]
    return [style for present, style in found if present]


def _indent_first_block(lines: list[str]) -> None:
    """Restore the indentation of a block whose header is the first line.

    Cleaning removed it, because no other line showed the margin.
    """
    for number, line in enumerate(lines[1:], start=1):
        if not line or line in HEADERS or (number == 1 and line[0] == " "):
            return
        lines[number] = f"    {line}"


# --- classes -----------------------------------------------------------------------------------------


class ClassDocs(NamedTuple):
    """The description of a class, and those of its fields by name."""

    description: str
    fields: dict[str, str]


def parse_class(cls: type) -> ClassDocs:
    """Parse the docstrings of a class and its bases, of which the first to describe a field counts."""
    own, *inherited = [parse_docstring(_docstring_of(base)) for base in cls.__mro__]
    fields: dict[str, str] = {}
    for docs in (own, *inherited):
        for item in (*docs.attributes, *docs.params):
            fields.setdefault(item.name, item.description)
    return ClassDocs(own.description, fields)


def _docstring_of(cls: type) -> str | None:
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or cls.__module__.partition(".")[0] in ("builtins", "pydantic", "typing"):
        return None
    return None if text.startswith(f"{cls.__name__}(") else text  # made by @dataclass or NamedTuple

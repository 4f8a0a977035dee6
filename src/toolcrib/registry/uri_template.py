"""URI templates (RFC 6570): match a URI against a template, and expand a template to a URI.

    template = URITemplate("docs://{project}/{+path}{?version}")
    template.match("docs://shop/guide/a%20b.md?version=2")
    # {"project": "shop", "path": "guide/a b.md", "version": "2"}

Levels 1 to 3 of the RFC are supported, and the explode modifier for `/`, `.` and `;`. One variable may be
greedy: `{+x}`, `{#x}` or an exploded one. The literals right of it are looked for from the end of the URI,
those left of it from the start, each once and never again: the work is linear in the length of the URI.
Without a greedy variable, the first one takes the rest, so `{a}-{b}` matches `1-2-3` as `1-2` and `3`.

Query variables are optional and come in any order; of several with one name the first counts, and unknown
ones are ignored, as in the official SDK. Every other variable is in every match, if only as an empty string.

`expand` is the inverse of `match`: unlike the RFC, it also encodes a character that would end the value, such
as `?` in `{+path}`. It gives the values back unless one contains the literal that follows its variable.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote, unquote_to_bytes

from toolcrib.errors import InvalidToolError

Value = str | list[str]

MAX_TEMPLATE_LENGTH = 8_192
MAX_VARIABLES = 256
MAX_URI_LENGTH = 65_536

RESERVED = ":/?#[]@!$&'()*+,;="
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
NAME = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
HEX_DIGITS = frozenset(string.hexdigits)


@dataclass(frozen=True, slots=True)
class _Operator:
    """What an operator writes before the first value and between values, which characters end a value, and
    which reserved ones are kept in it."""

    lead: str
    separator: str
    ends: str
    kept: str = ""


OPERATORS = {
    "": _Operator("", ",", "/?#&,"),
    "+": _Operator("", ",", "?#", RESERVED),
    "#": _Operator("#", ",", "", RESERVED),
    ".": _Operator(".", ".", "./?#"),
    "/": _Operator("/", "/", "/?#"),
    ";": _Operator(";", ";", ";/?#"),
    "?": _Operator("?", "&", "&#"),
    "&": _Operator("&", "&", "&#"),
}
EXPLODABLE = "/.;"
QUERY = ("?", "&")


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    symbol: str
    is_exploded: bool
    lead: str
    """The text before the value, from the operator."""

    @property
    def operator(self) -> _Operator:
        return OPERATORS[self.symbol]

    @property
    def is_greedy(self) -> bool:
        return self.is_exploded or self.symbol in ("+", "#")

    @property
    def placeholder(self) -> str:
        """The variable in a skeleton, without its name unless the name is part of the URI."""
        if not self.is_exploded:
            return "{+}" if self.is_greedy else "{}"
        return "{" + self.symbol + (self.name if self.symbol == ";" else "") + "*}"

    def read(self, raw: str) -> Value | None:
        """Return the value of a part of a URI, or None if it cannot be one."""
        if raw.isalnum() and not self.is_exploded and self.symbol != ";":
            return raw  # most values: nothing in them has a meaning in a URI
        separator = self.operator.separator
        if any(end in raw for end in self.operator.ends if not (self.is_exploded and end == separator)):
            return None
        if not self.is_exploded:
            return self._decode(raw)
        if raw and raw[0] != separator:
            return None
        items: list[str] = []
        for item in raw.split(separator)[1:]:
            if self.symbol == ";" and not item.startswith(self.name):
                return None
            value = self._decode(item.removeprefix(self.name) if self.symbol == ";" else item)
            if value is None:
                return None
            items.append(value)
        return items

    def _decode(self, raw: str) -> str | None:
        if self.symbol == ";" and raw:
            return decode(raw[1:]) if raw[0] == "=" else None
        return decode(raw)

    def write(self, value: str | Sequence[str]) -> str:
        """Return the part of a URI for a value, with the name where the operator writes one."""
        if not self.is_exploded:
            return self._encode(value)
        if isinstance(value, str):
            raise TypeError(f"'{self.name}' takes a list of strings, got {value!r:.80}")
        lead = self.lead + (self.name if self.symbol == ";" else "")
        return "".join(lead + self._encode(item) for item in value)

    def _encode(self, value: object) -> str:
        if not isinstance(value, str):
            raise TypeError(f"'{self.name}' takes a string, got {value!r:.80}")
        kept = "".join(char for char in self.operator.kept if char not in self.operator.ends)
        encoded = quote(value, safe=kept)
        if self.symbol == ".":
            encoded = encoded.replace(".", "%2E")
        return f"={encoded}" if self.symbol == ";" and value else encoded


class URITemplate:
    """A URI template. Raises InvalidToolError if it is malformed, or if matching it would be ambiguous.

    `optional` are the query variables, `exploded` those whose value is a list. Templates with the same
    `skeleton` match the same URIs, apart from the query.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_TEMPLATE_LENGTH:
            self._refuse(f"has {len(text):,} characters", f"the limit is {MAX_TEMPLATE_LENGTH:,}")
        parts, found = self._parse()
        self._check_names(found)
        self._fixed, self._query = self._split_query(parts)
        self._literals, self._path = self._join(parts)
        greedy = [index for index, variable in enumerate(self._path) if variable.is_greedy]
        if len(greedy) > 1:
            names = " and ".join(f"'{self._path[index].name}'" for index in greedy[:2])
            self._refuse(f"has two greedy variables, {names}", "keep one of {+x}, {#x} and {/x*}")
        rest = greedy[0] if greedy else 0
        self._left = self._literals[1 : rest + 1]
        self._right = self._literals[-2:rest:-1]
        self.variables = tuple(variable.name for variable in found)
        self.optional = frozenset(variable.name for variable in self._query)
        self.exploded = frozenset(variable.name for variable in found if variable.is_exploded)
        self.greedy = self._path[rest].name if greedy else None

    def __repr__(self) -> str:
        return f"URITemplate({self.text!r})"

    @property
    def skeleton(self) -> str:
        """The literals of the template, with the kind of each variable between them."""
        holders = [*(variable.placeholder for variable in self._path), ""]
        path = "".join(literal + holder for literal, holder in zip(self._literals, holders, strict=True))
        return path + ("?" + "&".join(sorted(self._fixed)) if self._fixed else "")

    def match(self, uri: str) -> dict[str, Value] | None:
        """Return the decoded values of a URI, or None if it does not match."""
        text = _to_ascii(uri) if len(uri) <= MAX_URI_LENGTH else None
        if text is None:
            return None
        query: dict[str, str] | None = None
        if self._query:
            text, _, rest = text.partition("?")
            query = self._match_query(rest)
            if query is None:
                return None
        pieces = self._cut(text)
        if pieces is None:
            return None
        found = list(zip(self._path, pieces, strict=True))
        if query:
            found += [(variable, query[variable.name]) for variable in self._query if variable.name in query]
        values: dict[str, Value] = {}
        for variable, raw in found:
            value = variable.read(raw)
            if value is None:
                return None
            values[variable.name] = value
        return values

    def expand(self, values: Mapping[str, str | Sequence[str]]) -> str:
        """Return the URI for values, of which those of the query may be missing."""
        for variable in self._path:
            if variable.name not in values:
                raise ValueError(f"Missing value for '{variable.name}' of {self.text!r:.80}")
        path = [variable.write(values[variable.name]) for variable in self._path]
        query = [
            f"{variable.name}={variable.write(values[variable.name])}"
            for variable in self._query
            if variable.name in values
        ]
        uri = "".join(literal + value for literal, value in zip(self._literals, [*path, ""], strict=True))
        return uri + ("?" + "&".join([*self._fixed, *query]) if self._fixed or query else "")

    def _cut(self, text: str) -> list[str] | None:
        """Return the part of a URI for each variable of the path: literals are searched from both ends, and
        what is left in between belongs to the greedy variable."""
        first, last = self._literals[0], self._literals[-1]
        if not self._path:
            return [] if text == first else None
        start, end = len(first), len(text) - len(last)
        if start > end or not (text.startswith(first) and text.endswith(last)):
            return None
        after: list[str] = []
        for literal in self._right:
            found = text.rfind(literal, start, end)
            if found < 0:
                return None
            after.append(text[found + len(literal) : end])
            end = found
        before: list[str] = []
        for literal in self._left:
            found = text.find(literal, start, end)
            if found < 0:
                return None
            before.append(text[start:found])
            start = found + len(literal)
        return [*before, text[start:end], *reversed(after)]

    def _match_query(self, query: str) -> dict[str, str] | None:
        """Return the part of a query for each variable in it; names are compared as they are written."""
        pairs = query.split("&")
        if "#" in query or not set(self._fixed) <= set(pairs):
            return None
        found: dict[str, str] = {}
        for pair in pairs:
            name, _, raw = pair.partition("=")
            if name in self.optional:
                found.setdefault(name, raw)
        return found

    def _parse(self) -> tuple[list[str | _Variable], list[_Variable]]:
        """Return literals and variables in order, and the variables alone."""
        parts: list[str | _Variable] = []
        for index, piece in enumerate(self.text.split("{")):
            expression, brace, literal = piece.partition("}") if index else ("", "}", piece)
            if not brace or "}" in literal:
                self._refuse("has unbalanced braces", "write each variable as {name}")
            if index:
                parts += self._parse_expression(expression)
            if literal:
                parts.append(self._check_literal(literal))
        return parts, [part for part in parts if isinstance(part, _Variable)]

    def _parse_expression(self, expression: str) -> list[_Variable]:
        symbol = expression[0] if expression[:1] in OPERATORS and expression else ""
        operator = OPERATORS[symbol]
        found: list[_Variable] = []
        for item in expression.removeprefix(symbol).split(","):
            name = item.removesuffix("*")
            if ":" in name:
                self._refuse(f"has a prefix modifier, {{{item}}}", "use the variable without it")
            if not NAME.fullmatch(name):
                hint = "names have letters, digits and underscores, as parameters of a function"
                self._refuse(f"has the invalid variable name {name!r:.80}", hint)
            if name != item and (not symbol or symbol not in EXPLODABLE):
                self._refuse(f"explodes '{name}' with *", "only {/x*}, {.x*} and {;x*} can be exploded")
            lead = operator.separator if found else operator.lead
            found.append(_Variable(name, symbol, name != item, lead))
        return found

    def _check_literal(self, literal: str) -> str:
        if any(char <= " " or char in '"<>\\^`|\x7f' for char in literal):
            self._refuse(f"has a character that no URI has, in {literal!r:.80}", "percent-encode it")
        encoded = _to_ascii(literal)
        if encoded is None or decode(encoded) is None:
            self._refuse(f"has an invalid escape in {literal!r:.80}", "write a percent sign as %25")
        return encoded

    def _check_names(self, variables: list[_Variable]) -> None:
        if len(variables) > MAX_VARIABLES:
            self._refuse(f"has {len(variables):,} variables", f"the limit is {MAX_VARIABLES}")
        seen: set[str] = set()
        for variable in variables:
            if variable.name in seen:
                self._refuse(f"has the variable '{variable.name}' twice", "give each variable its own name")
            seen.add(variable.name)

    def _split_query(self, parts: list[str | _Variable]) -> tuple[tuple[str, ...], list[_Variable]]:
        """Remove the query from the end of the parts; return its fixed pairs and its variables."""
        query: list[_Variable] = []
        while parts and isinstance(part := parts[-1], _Variable) and part.symbol in QUERY:
            query.insert(0, part)
            parts.pop()
        fixed = ""
        if query and query[0].symbol == "&" and parts and isinstance(last := parts[-1], str) and "?" in last:
            parts[-1], _, fixed = last.partition("?")
        elif query and query[0].symbol == "&":
            self._refuse(f"has no '?' before '{query[0].name}'", f"write {{?{query[0].name}}}")
        if any(variable.lead == "?" for variable in query[1:]) or any(
            isinstance(part, _Variable) and part.symbol in QUERY for part in parts
        ):
            self._refuse("has a query that is not at its end, or two", "write {?a,b} once, as the last part")
        marks = "".join(part if isinstance(part, str) else part.lead for part in parts)
        if query and ("?" in marks or "#" in marks + fixed):
            self._refuse("has a '?' or '#' before its query", "write the whole query as {?a,b}")
        return tuple(filter(None, fixed.split("&"))), query

    def _join(self, parts: list[str | _Variable]) -> tuple[list[str], list[_Variable]]:
        """Return variables, and the literals before, between and after them."""
        literals, variables = [""], list[_Variable]()
        for part in parts:
            if isinstance(part, str):
                literals[-1] += part
                continue
            if not part.is_exploded:  # whose value begins with the lead
                literals[-1] += part.lead + (part.name if part.symbol == ";" else "")
            if variables and not literals[-1]:
                names = f"'{variables[-1].name}' and '{part.name}'"
                self._refuse(f"has nothing between the variables {names}", "write a literal between them")
            variables.append(part)
            literals.append("")
        return literals, variables

    def _refuse(self, problem: str, hint: str) -> NoReturn:
        shown = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        raise InvalidToolError(f"URI template {shown!r} {problem:.160}", hint=hint)


def is_template(text: str) -> bool:
    """Return whether a string is meant as a template: no URI has braces."""
    return "{" in text or "}" in text


def decode(raw: str) -> str | None:
    """Decode percent-encoding once. Return None for an invalid escape, or bytes that are not UTF-8."""
    for escape in raw.split("%")[1:]:
        if len(escape) < 2 or not HEX_DIGITS.issuperset(escape[:2]):
            return None
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def screen(values: Mapping[str, str | Sequence[str]], exempt: frozenset[str] = frozenset()) -> str | None:
    """Return why values are refused that would be dangerous as paths, or None if they are not.

    A list is also screened as the path that its items make together.
    """
    for name, value in values.items():
        if name in exempt:
            continue
        for path in [value] if isinstance(value, str) else [*value, "/".join(value)]:
            if problem := _find_danger(path):
                return f"'{name}' {problem}"
    return None


def _find_danger(path: str) -> str | None:
    if path.isalnum():
        return None  # most values
    if "\0" in path:
        return "contains a NUL character"
    if any(part.strip() == ".." for part in path.replace("\\", "/").split("/")):
        return "contains '..'"
    if path.startswith(("/", "\\")) or (path[1:2] == ":" and path[0] in string.ascii_letters):
        return "is an absolute path"
    return None


def _to_ascii(text: str) -> str | None:
    """Percent-encode what is not ASCII, so that both spellings of a URI match."""
    try:
        return text if text.isascii() else quote(text, safe=PRINTABLE)
    except UnicodeEncodeError:
        return None

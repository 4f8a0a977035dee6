"""URI templates (RFC 6570): match a URI against a template, and expand a template to a URI.

    template = URITemplate("docs://{project}/{+path}{?version}")
    template.match("docs://shop/guide/a%20b.md?version=2")
    # {"project": "shop", "path": "guide/a b.md", "version": "2"}

Of the RFC: `{name}`, one `{+name}`, whose value may have slashes, and `{?a,b}` at the end. The literals right
of `{+name}` are looked for from the end of the URI, those left of it from the start, each once and never
again: the work is linear in the length of the URI. Without it the first variable takes the rest, so `{a}-{b}`
matches `1-2-3` as `1-2` and `3`.

Query variables are optional and come in any order; of several with one name the first counts, and unknown
ones are ignored, as in the official SDK. Every other variable is in every match, if only as an empty string.

`expand` is the inverse of `match`: unlike the RFC, it also encodes a character that would end the value, such
as `?` in `{+path}`. It gives the values back unless one contains the literal that follows its variable.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote, unquote_to_bytes

from toolcrib.errors import InvalidToolError

MAX_TEMPLATE_LENGTH = 8_192
MAX_VARIABLES = 256
MAX_URI_LENGTH = 65_536

PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
NAME = re.compile(r"[A-Za-z0-9_]+")
HEX_DIGITS = frozenset(string.hexdigits)
ENDS = {"": "/?#&,", "+": "?#", "?": "&#"}
"""The characters that end a value, by the operator of its variable."""
KEPT = ":/[]@!$&'()*+,;="
"""Reserved characters that a value of `{+name}` keeps."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    operator: str

    def read(self, raw: str) -> str | None:
        """Return the value of a part of a URI, or None if it cannot be one."""
        if raw.isalnum():
            return raw  # most values: nothing in them has a meaning in a URI
        return None if any(end in raw for end in ENDS[self.operator]) else decode(raw)

    def write(self, values: Mapping[str, str]) -> str:
        """Return the part of a URI for a value."""
        value: object = values[self.name]
        if not isinstance(value, str):
            raise TypeError(f"'{self.name}' takes a string, got {value!r:.80}")
        return quote(value, safe=KEPT if self.operator == "+" else "")


class URITemplate:
    """A URI template. Raises InvalidToolError if it is malformed, or if matching it would be ambiguous.

    `optional` are the query variables. Templates with the same `skeleton` match the same URIs, apart from the
    query.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_TEMPLATE_LENGTH:
            self._refuse(f"has {len(text):,} characters", f"the limit is {MAX_TEMPLATE_LENGTH:,}")
        self._literals, self._path, self._query = self._parse()
        self.variables = tuple(variable.name for variable in (*self._path, *self._query))
        self.optional = frozenset(variable.name for variable in self._query)
        self._check_names()
        greedy = [index for index, variable in enumerate(self._path) if variable.operator == "+"]
        if len(greedy) > 1:
            names = " and ".join(f"'{self._path[index].name}'" for index in greedy[:2])
            self._refuse(
                f"has two greedy variables, {names}", "keep one of them, and write {name} for the other"
            )
        rest = greedy[0] if greedy else 0
        self._left = self._literals[1 : rest + 1]
        self._right = self._literals[-2:rest:-1]

    def __repr__(self) -> str:
        return f"URITemplate({self.text!r})"

    @property
    def skeleton(self) -> str:
        """The literals of the template, with the kind of each variable between them."""
        return self._fill([f"{{{variable.operator}}}" for variable in self._path])

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of a URI, or None if it does not match."""
        text = _to_ascii(uri) if len(uri) <= MAX_URI_LENGTH else None
        if text is None:
            return None
        query: dict[str, str] = {}
        if self._query:
            text, _, rest = text.partition("?")
            if "#" in rest:
                return None
            for pair in rest.split("&"):  # names are compared as they are written
                name, _, raw = pair.partition("=")
                if name in self.optional:
                    query.setdefault(name, raw)
        pieces = self._cut(text)
        if pieces is None:
            return None
        found = list(zip(self._path, pieces, strict=True))
        found += [(variable, query[variable.name]) for variable in self._query if variable.name in query]
        values: dict[str, str] = {}
        for variable, raw in found:
            value = variable.read(raw)
            if value is None:
                return None
            values[variable.name] = value
        return values

    def expand(self, values: Mapping[str, str]) -> str:
        """Return the URI for values, of which those of the query may be missing."""
        for variable in self._path:
            if variable.name not in values:
                raise ValueError(f"Missing value for '{variable.name}' of {self.text!r:.80}")
        uri = self._fill([variable.write(values) for variable in self._path])
        given = [variable for variable in self._query if variable.name in values]
        query = "&".join(f"{variable.name}={variable.write(values)}" for variable in given)
        return f"{uri}?{query}" if query else uri

    def _fill(self, holders: list[str]) -> str:
        return "".join(literal + value for literal, value in zip(self._literals, [*holders, ""], strict=True))

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

    def _parse(self) -> tuple[list[str], list[_Variable], list[_Variable]]:
        """Return the literals before, between and after the variables of the path; these; and the query."""
        literals, path, query = [""], list[_Variable](), list[_Variable]()
        pieces = self.text.split("{")
        for index, piece in enumerate(pieces):
            expression, brace, literal = piece.partition("}") if index else ("", "}", piece)
            if not brace or "}" in literal:
                self._refuse("has unbalanced braces", "write each variable as {name}")
            if index:
                found = self._parse_expression(expression)
                if found[0].operator == "?":
                    query = found
                else:
                    if path and not literals[-1]:
                        names = f"'{path[-1].name}' and '{found[0].name}'"
                        self._refuse(
                            f"has nothing between the variables {names}", "write a literal between them"
                        )
                    path += found
                    literals.append("")
            if query and (literal or index < len(pieces) - 1):
                self._refuse(
                    "has a query that is not at its end, or two", "write {?a,b} once, as the last part"
                )
            literals[-1] += self._check_literal(literal)
        if query and any(mark in literal for literal in literals for mark in "?#"):
            self._refuse("has a '?' or '#' before its query", "write the whole query as {?a,b}")
        return literals, path, query

    def _parse_expression(self, expression: str) -> list[_Variable]:
        operator = expression[:1] if expression[:1] in ("+", "?") else ""
        names = expression.removeprefix(operator)
        found = [_Variable(name, operator) for name in (names.split(",") if operator == "?" else [names])]
        if not all(NAME.fullmatch(variable.name) for variable in found):
            hint = (
                "write {name}, {+name} for a value with slashes, or {?a,b} as a query; names have letters, "
            )
            self._refuse(f"has the invalid expression {{{expression}}}", f"{hint}digits and underscores")
        return found

    def _check_literal(self, literal: str) -> str:
        if any(char <= " " or char in '"<>\\^`|\x7f' for char in literal):
            self._refuse(f"has a character that no URI has, in {literal!r:.80}", "percent-encode it")
        encoded = _to_ascii(literal)
        if encoded is None or decode(encoded) is None:
            self._refuse(f"has an invalid escape in {literal!r:.80}", "write a percent sign as %25")
        return encoded

    def _check_names(self) -> None:
        if len(self.variables) > MAX_VARIABLES:
            self._refuse(f"has {len(self.variables):,} variables", f"the limit is {MAX_VARIABLES}")
        for index, name in enumerate(self.variables):
            if name in self.variables[:index]:
                self._refuse(f"has the variable '{name}' twice", "give each variable its own name")

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


def screen(values: Mapping[str, str], exempt: frozenset[str] = frozenset()) -> str | None:
    """Return why values are refused that would be dangerous as paths, or None if they are not."""
    for name, value in values.items():
        if name not in exempt and (problem := _find_danger(value)):
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

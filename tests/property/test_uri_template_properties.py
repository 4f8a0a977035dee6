"""URI templates: expansion and matching are inverse, the work is linear, and the official SDK agrees."""

from __future__ import annotations

from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import InvalidToolError
from toolcrib.registry.uri_template import URITemplate, screen

LITERALS = st.builds("{}{}".format, st.sampled_from("/:@!$()"), st.text("ab-._~", max_size=3))
"""They begin with a character that is encoded in every value that is not greedy."""


@st.composite
def templates_with_values(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    count = draw(st.integers(0, 6))
    greedy = draw(st.integers(0, 6))
    text, values = "x://", dict[str, str]()
    for index in range(count):
        name = f"v{index}"
        text += draw(LITERALS) + ("{+%s}" if index == greedy else "{%s}") % name
        values[name] = draw(st.text())
    text += draw(LITERALS)
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
        text += "{?" + ",".join(names) + "}"
        values |= draw(st.dictionaries(st.sampled_from(names), st.text()))
    return text, values


@given(templates_with_values())
def test_matching_gives_back_the_values_that_were_expanded(case: tuple[str, dict[str, str]]) -> None:
    text, values = case
    template = URITemplate(text)
    assert template.match(template.expand(values)) == values


@given(st.lists(st.sampled_from(["{", "}", "a", "b", "c", *"+#./;?&*,:-"]), max_size=30), st.text())
def test_a_text_is_refused_or_matches_its_own_expansions(pieces: list[str], uri: str) -> None:
    try:
        template = URITemplate("".join(pieces))
    except InvalidToolError:
        return
    template.match(uri)
    names = template.variables
    values = dict.fromkeys(names, "Z")
    assert template.match(template.expand(values)) == values


# --- the work, counted in characters ---


class CountedText(str):
    """A string that counts the characters that are looked at or copied, by it and by its parts."""

    characters = 0

    def count_up(self, number: int) -> None:
        CountedText.characters += number

    def find(self, literal: str, start: SupportsIndex | None = None, end: SupportsIndex | None = None) -> int:
        found = super().find(literal, start, end)
        self.count_up((found if found >= 0 else len(self)) - int(start or 0) + len(literal))
        return found

    def __getitem__(self, key: SupportsIndex | slice) -> CountedText:
        return self._part(super().__getitem__(key))

    def __contains__(self, key: str) -> bool:  # type: ignore[override]
        self.count_up(len(self))
        return super().__contains__(key)

    def partition(self, separator: str) -> tuple[str, str, str]:
        head, middle, tail = super().partition(separator)
        return self._part(head), middle, self._part(tail)

    def split(self, separator: str | None = None, most: SupportsIndex = -1) -> list[str]:
        return [self._part(item) for item in super().split(separator, most)]

    def removeprefix(self, prefix: str) -> str:
        return self._part(super().removeprefix(prefix))

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        self.count_up(len(self))
        return super().encode(encoding, errors)

    def _part(self, text: str) -> CountedText:
        self.count_up(len(text) + 1)
        return CountedText(text)

    @classmethod
    def count(cls, template: URITemplate, uri: str) -> int:
        """Return how many characters it takes to match a URI."""
        cls.characters = 0
        template.match(cls(uri))
        return cls.characters


PER_CHARACTER = 20
"""Copies and searches of each character of a URI: cut, reversed twice, searched for each end, decoded."""

HARD = [
    ("x://" + "a".join(f"{{v{index}}}" for index in range(256)), "x://" + "a" * 65_000),
    ("x://" + "aab".join(f"{{v{index}}}" for index in range(256)), "x://" + "a" * 65_000),
    ("x://" + "a".join(f"{{v{index}}}" for index in range(128)) + "b{+c}", "x://" + "a" * 65_000),
    ("x://{+c}a" + "a".join(f"{{v{index}}}" for index in range(128)), "x://" + "a" * 65_000),
    ("x://{a}" + "/" * 4_000 + "{b}", "x://" + "/" * 65_000),
    ("x://s/{+path}", "x://s" + "/" * 65_000),
    ("x://{a}", "x://" + "%41" * 21_000),
    ("x://s{?" + ",".join(f"v{index}" for index in range(256)) + "}", "x://s?" + "v1=&" * 16_000),
    ("x://s{?a}", "x://s?" + "&" * 65_000),
]


@pytest.mark.parametrize(("text", "uri"), HARD, ids=range(len(HARD)))
def test_each_character_of_a_long_uri_is_looked_at_a_fixed_number_of_times(text: str, uri: str) -> None:
    template = URITemplate(text)
    for share in (1, 10):
        part = uri[: len(uri) // share]
        assert CountedText.count(template, part) <= PER_CHARACTER * (len(part) + len(text))


@given(templates_with_values(), st.integers(1, 50))
def test_no_uri_takes_more_than_linear_work(case: tuple[str, dict[str, str]], times: int) -> None:
    text, values = case
    template = URITemplate(text)
    uri = template.expand({name: value * times for name, value in values.items()})
    assert CountedText.count(template, uri) <= PER_CHARACTER * (len(uri) + len(text))


# --- the official SDK ---

EXPRESSIONS = ["{a}", "{b}", "{c}", "{+d}", "{+e}"]


@given(
    st.lists(st.sampled_from([*EXPRESSIONS, "x", "/", "-", "."]), max_size=6, unique=True),
    st.sampled_from(["", "", "{?p}", "{?p,q}"]),
    st.lists(st.sampled_from(["x", "/", "-", ".", ";h", ";j", "=", ",", "?", "&", "p=", "q"]), max_size=10),
)
def test_a_template_matches_as_in_the_official_sdk(parts: list[str], query: str, uri: list[str]) -> None:
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate  # takes long to import

    text = "".join(parts) + query
    try:
        theirs: Any = UriTemplate.parse(text)
    except InvalidUriTemplate:
        with pytest.raises(InvalidToolError):
            URITemplate(text)
        return
    assert URITemplate(text).match("".join(uri)) == theirs.match("".join(uri))


@given(st.text("./\\:C\0a", max_size=8))
def test_nothing_passes_the_screen_that_the_official_sdk_refuses(value: str) -> None:
    from mcp.shared.path_security import contains_path_traversal, is_absolute_path

    if "\0" in value or contains_path_traversal(value) or is_absolute_path(value):
        assert screen({"path": value}) is not None

"""Hostile templates are refused, and hostile URIs match nothing or give values that the screen refuses."""

from __future__ import annotations

import pytest

from toolcrib.errors import InvalidToolError
from toolcrib.registry.uri_template import URITemplate

PATH = URITemplate("docs://{+path}")
NAME = URITemplate("docs://{name}")


def numbered(form: str, count: int, between: str) -> str:
    return between.join(form % index for index in range(count))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x" * 8_193, "has 8,193 characters"),
        ("{" * 8_192, "unbalanced"),
        ("}" * 8_192, "unbalanced"),
        ("{}" * 4_096, "invalid expression"),
        ("/{a}" * 2_048, "has 2,048 variables"),
        ("/{a}" * 256, "the variable 'a' twice"),
        (numbered("{v%d}", 257, "/"), "has 257 variables"),
        ("x{?" + numbered("v%d", 257, ",") + "}", "has 257 variables"),
        (numbered("{+v%d}", 256, "/"), "two greedy"),
        (numbered("{v%d}", 256, ""), "nothing between"),
        ("{" + "," * 8_000 + "}", "invalid expression"),
        ("{" + "a" * 8_000 + "!}", "invalid expression"),
        ("{" + "a." * 4_000 + "}", "invalid expression"),
        ("{a:" + "9" * 8_000 + "}", "invalid expression"),
        ("%" * 8_192, "invalid escape"),
        ("{" + "a" * 8_000 + "}{b}", "nothing between"),
        ("x{?b}{" + "a" * 8_000 + "}", "not at its end"),
    ],
)
def test_a_template_bomb_is_refused_with_a_short_message(text: str, words: str) -> None:
    with pytest.raises(InvalidToolError, match=words) as caught:
        URITemplate(text)
    assert len(str(caught.value)) < 300


def test_a_template_at_the_limits_is_accepted() -> None:
    assert len(URITemplate(numbered("{v%d}", 256, "/")).variables) == 256
    assert URITemplate("x" * 8_192).match("x" * 8_192) == {}


def test_a_uri_that_is_too_long_does_not_match() -> None:
    assert PATH.match("docs://" + "a" * (65_536 - 7)) is not None
    assert PATH.match("docs://" + "a" * (65_536 - 6)) is None


@pytest.mark.parametrize(
    "raw",
    [
        *("%", "%2", "%zz", "%2g", "%%32%65", "% 2e", "%+2", "%-1", "%0x", "%u002e", "a%", "%２e"),
        *("%ff", "%80", "%c3", "%c3%28"),
        *("%c0%ae%c0%ae", "%c0%af", "%e0%80%af", "%f0%80%80%af", "%c1%9c", "%c0%80"),
        *("%ed%a0%80", "%ed%a0%80%ed%b0%80", "%f4%90%80%80", "%f8%88%80%80%80"),
        "\ud800",
    ],
    ids=ascii,
)
def test_an_invalid_escape_or_text_that_is_not_utf8_does_not_match(raw: str) -> None:
    assert PATH.match(f"docs://{raw}") is None
    assert NAME.match(f"docs://{raw}") is None


def test_an_encoded_delimiter_never_moves_the_border_of_a_value() -> None:
    template = URITemplate("x://{a}/{b}{?c}")
    assert template.match("x://1%2F2/3%3Fc=4") == {"a": "1/2", "b": "3?c=4"}
    assert template.match("x://1/2?c=3%26c%3D4%23") == {"a": "1", "b": "2", "c": "3&c=4#"}
    assert template.match("x:%2F/1/2") is None


def test_a_name_in_a_query_cannot_be_hidden_by_an_encoded_one() -> None:
    template = URITemplate("x://s{?token}")
    assert template.match("x://s?%74oken=evil&token=real") == {"token": "real"}

"""URI templates: what matches, what is refused, and which values are dangerous."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidToolError
from toolcrib.registry.uri_template import URITemplate, is_template, screen

RFC_VALUES = {
    "var": "value",
    "hello": "Hello World!",
    "path": "/foo/bar",
    "x": "1024",
    "y": "768",
    "empty": "",
    "half": "50%",
    "base": "http://example.com/home/",
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{half}", "50%25"),
        ("O{empty}X", "OX"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("x{?x,y,empty}", "x?x=1024&y=768&empty="),
    ],
)
def test_a_template_expands_as_in_the_examples_of_the_rfc(template: str, expected: str) -> None:
    parsed = URITemplate(template)
    assert parsed.expand(RFC_VALUES) == expected
    assert parsed.match(expected) == {name: RFC_VALUES[name] for name in parsed.variables}


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("test://template/{id}/data", "test://template/123/data", {"id": "123"}),
        ("test://template/{id}/data", "test://template//data", {"id": ""}),
        ("test://template/{id}/data", "test://template/1/2/data", None),
        ("test://template/{id}/data", "test://template/data", None),
        ("user://{mail}", "user://ana@example.com", {"mail": "ana@example.com"}),
        ("x://{a}", "x://1?b=2", None),
        ("x://{a}", "x://1#b", None),
        ("x://{a}", "x://1,2", None),
        ("x://{a}", "x://%31%2F%3F", {"a": "1/?"}),
        ("x://{a}", "X://1", None),
        ("{a}-{b}", "1-2-3", {"a": "1-2", "b": "3"}),
        ("v-{a}", "v-v-1", {"a": "v-1"}),
        ("aba{x}aba", "aba", None),
        ("aba{x}aba", "ababa", None),
        ("aba{x}aba", "abaaba", {"x": ""}),
        ("x://{a}/{+path}/{b}.md", "x://1/2/3/4.md/5.md", {"a": "1", "path": "2/3/4.md", "b": "5"}),
        ("x://{a}/{+path}/{b}", "x://1/2", None),
        ("x://{+path}", "x://a/b%2Fc", {"path": "a/b/c"}),
        ("x://{+path}", "x://a?b", None),
        ("x://{+path}.{ext}", "x://a.b/c.md", {"path": "a.b/c", "ext": "md"}),
        ("x://s?q={q}", "x://s?q=1", {"q": "1"}),
        ("x://s", "x://s", {}),
        ("x://s", "x://s/", None),
        ("{scheme}://x", "docs://x", {"scheme": "docs"}),
    ],
)
def test_a_uri_matches_where_an_expansion_could_have_made_it(
    template: str, uri: str, expected: dict[str, str] | None
) -> None:
    assert URITemplate(template).match(uri) == expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("logs://api", {"service": "api"}),
        ("logs://api?", {"service": "api"}),
        ("logs://api?since=5m&level=error", {"service": "api", "since": "5m", "level": "error"}),
        ("logs://api?level=error&since=5m", {"service": "api", "since": "5m", "level": "error"}),
        ("logs://api?level=a%26b", {"service": "api", "level": "a&b"}),
        ("logs://api?level=a+b/c?d", {"service": "api", "level": "a+b/c?d"}),
        ("logs://api?level", {"service": "api", "level": ""}),
        ("logs://api?level=first&level=second", {"service": "api", "level": "first"}),
        ("logs://api?utm=x&level=1&&z", {"service": "api", "level": "1"}),
        ("logs://api?%6Cevel=hidden&level=1", {"service": "api", "level": "1"}),
        ("logs://api?utm=%zz", {"service": "api"}),
        ("logs://api?level=%zz", None),
        ("logs://api?level=1#part", None),
        ("logs://api?utm=1#part", None),
        ("logs://api#part", None),
        ("logs://api&level=1", None),
    ],
)
def test_query_variables_are_optional_in_any_order_and_unknown_ones_are_ignored(
    uri: str, expected: dict[str, str] | None
) -> None:
    template = URITemplate("logs://{service}{?since,level}")
    assert template.match(uri) == expected
    assert template.optional == {"since", "level"}


def test_query_variables_may_be_left_out() -> None:
    template = URITemplate("x://s{?a,b}")
    assert template.expand({"b": "1"}) == "x://s?b=1"
    assert template.expand({}) == "x://s"


def test_text_that_is_not_ascii_matches_both_spellings() -> None:
    template = URITemplate("wetter://österreich/{ort}")
    expected = {"ort": "Gänserndorf 1"}
    assert template.match("wetter://österreich/Gänserndorf 1") == expected
    assert template.match("wetter://%C3%B6sterreich/G%C3%A4nserndorf%201") == expected
    assert template.expand(expected) == "wetter://%C3%B6sterreich/G%C3%A4nserndorf%201"


def test_percent_encoding_is_decoded_once() -> None:
    assert URITemplate("x://{a}").match("x://%252e%252e%2500") == {"a": "%2e%2e%00"}


def test_an_expanded_value_keeps_the_characters_that_would_end_it() -> None:
    names = ["what?.txt", "50%20off.txt", "a#b.md", "new\nline", "tar.gz", "a,b;c&d=e", "ü/\\"]
    for template in ("x://{v}", "x://{+v}", "x://s{?v}"):
        parsed = URITemplate(template)
        for name in names:
            assert parsed.match(parsed.expand({"v": name})) == {"v": name}, (template, name)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("x://{a", "unbalanced braces"),
        ("x://a}", "unbalanced braces"),
        ("x://{a}}", "unbalanced braces"),
        ("x://{{a}}", "unbalanced braces"),
        ("x://{a{b}}", "unbalanced braces"),
        *(
            (f"x://{{{expression}}}", f"invalid expression {{{expression}}}")
            for expression in (
                "",
                "+",
                "a,",
                "a,b",
                " a ",
                "a-b",
                "a.b",
                "a\n",
                "ä",
                "!a",
                "a:3",
                "a*",
                "+a*",
            )
        ),
        ("x://s{/a*}", "invalid expression {/a*}"),
        ("x://s?a=1{&b}", "invalid expression {&b}"),
        ("x://s{#a}", "invalid expression {#a}"),
        ("x://{a}/{b}/{a}", "the variable 'a' twice"),
        ("x://{a}{?a}", "the variable 'a' twice"),
        ("x://{+a}/{+b}", "two greedy variables, 'a' and 'b'"),
        ("x://{a}{b}", "nothing between the variables 'a' and 'b'"),
        ("x://{+a}{b}", "nothing between the variables"),
        ("x://{?a}/b", "not at its end"),
        ("x://{?a}{?b}", "not at its end"),
        ("x://s?q={q}{?a}", "'?' or '#' before its query"),
        ("x://s#x{?a}", "'?' or '#' before its query"),
        ("x://a b/{c}", "no URI has"),
        ("x://a\0/{c}", "no URI has"),
        ("x://a\\{c}", "no URI has"),
        ("x://100%/{c}", "invalid escape"),
        ("x://%ff/{c}", "invalid escape"),
        ("x://\ud800/{c}", "invalid escape"),
    ],
)
def test_a_template_that_is_malformed_or_ambiguous_is_refused_with_a_hint(template: str, words: str) -> None:
    with pytest.raises(InvalidToolError) as caught:
        URITemplate(template)
    assert words in str(caught.value)
    assert caught.value.hint


def test_a_template_knows_its_variables() -> None:
    template = URITemplate("x://{a}/{+b}.{c}{?d,e}")
    assert template.variables == ("a", "b", "c", "d", "e")
    assert template.optional == {"d", "e"}
    assert repr(template) == "URITemplate('x://{a}/{+b}.{c}{?d,e}')"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("x://{a}/y/{b}", "x://{c}/y/{d}", True),
        ("x://{a}", "x://{b}{?c}", True),
        ("x://{+a}", "x://{+b}", True),
        ("x://{a}", "x://{+a}", False),
        ("x://{a}/y", "x://{a}/z", False),
    ],
)
def test_templates_with_the_same_skeleton_match_the_same_uris(one: str, other: str, is_same: bool) -> None:
    assert (URITemplate(one).skeleton == URITemplate(other).skeleton) is is_same


def test_anything_with_a_brace_is_meant_as_a_template() -> None:
    assert is_template("x://{a}")
    assert is_template("x://{a")
    assert not is_template("x://a")


def test_a_value_that_is_missing_or_of_a_wrong_type_cannot_be_expanded() -> None:
    with pytest.raises(ValueError, match=r"Missing value for 'a' of 'x://\{a\}'"):
        URITemplate("x://{a}").expand({})
    with pytest.raises(TypeError, match="'a' takes a string, got 1"):
        URITemplate("x://{a}").expand({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'a' takes a string, got"):
        URITemplate("x://{a}").expand({"a": ["b"]})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("..", "'..'"),
        ("a/../b", "'..'"),
        ("a/..", "'..'"),
        ("..\\x", "'..'"),
        ("a\\..\\b", "'..'"),
        (".. /x", "'..'"),
        ("/etc/passwd", "absolute"),
        ("//host/share", "absolute"),
        ("\\\\host\\share", "absolute"),
        ("\\x", "absolute"),
        ("C:\\x", "absolute"),
        ("c:/x", "absolute"),
        ("C:x", "absolute"),
        ("a\0b", "NUL"),
    ],
)
def test_a_dangerous_path_is_refused_unless_its_parameter_is_exempt(value: Any, words: str) -> None:
    reason = screen({"name": "ok", "path": value})
    assert reason is not None
    assert words in reason
    assert "'path'" in reason
    assert screen({"path": value}, frozenset({"path"})) is None
    assert screen({"path": value}, frozenset({"name"})) is not None


@pytest.mark.parametrize("value", ["", ".", "a/b", "1.0..2.0", "...", "..a", "a..", "%2e%2e", "ab:c"])
def test_an_ordinary_value_is_accepted(value: Any) -> None:
    assert screen({"path": value}) is None

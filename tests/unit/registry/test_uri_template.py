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
        ("{x,y}", "1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("{+hello}", "Hello%20World!"),
        ("{+half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        ("X{.x,y}", "X.1024.768"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("x{?x,y,empty}", "x?x=1024&y=768&empty="),
        ("x?fixed=yes{&x,empty}", "x?fixed=yes&x=1024&empty="),
    ],
)
def test_a_template_expands_as_in_the_examples_of_the_rfc(template: str, expected: str) -> None:
    parsed = URITemplate(template)
    assert parsed.expand(RFC_VALUES) == expected
    assert parsed.match(expected) == {name: RFC_VALUES[name] for name in parsed.variables}


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("files{/path*}", {"path": ["a", "b c", ""]}, "files/a/b%20c/"),
        ("files{/path*}", {"path": []}, "files"),
        ("files{/path*}{.ext}", {"path": ["a", "b"], "ext": "md"}, "files/a/b.md"),
        ("www{.domain*}/x", {"domain": ["example", "com"]}, "www.example.com/x"),
        ("m{;key*}", {"key": ["1", "", "2"]}, "m;key=1;key;key=2"),
    ],
)
def test_an_exploded_variable_is_a_list(template: str, values: dict[str, list[str]], expected: str) -> None:
    parsed = URITemplate(template)
    assert parsed.expand(values) == expected
    assert parsed.match(expected) == values
    assert parsed.exploded == {name for name, value in values.items() if isinstance(value, list)}


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
        ("x://{+path}{.ext}", "x://a.b/c.md", {"path": "a.b/c", "ext": "md"}),
        ("x://s?q={q}", "x://s?q=1", {"q": "1"}),
        ("x://s{;a}", "x://s;a=", {"a": ""}),
        ("x://s{;a}", "x://s;ab", None),
        ("x://s{;a*}", "x://s;b=1", None),
        ("x://s{/a*}", "x://s1/2", None),
        ("x://s{/a*}", "x://s/1%zz", None),
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
    for template in ("logs://{service}{?since,level}", "logs://{service}{?since}{&level}"):
        parsed = URITemplate(template)
        assert parsed.match(uri) == expected
        assert parsed.optional == {"since", "level"}


def test_a_continued_query_needs_its_fixed_pairs() -> None:
    template = URITemplate("x://s?kind=a&of=b{&page,size}")
    assert template.match("x://s?page=2&of=b&kind=a") == {"page": "2"}
    assert template.match("x://s?page=2&of=b") is None
    assert template.match("x://s") is None
    assert template.expand({"size": "3"}) == "x://s?kind=a&of=b&size=3"
    assert template.expand({}) == "x://s?kind=a&of=b"


def test_the_first_query_variable_may_be_left_out() -> None:
    template = URITemplate("x://s{?a}{&b}")
    assert template.expand({"b": "1"}) == "x://s?b=1"
    assert template.match("x://s?b=1") == {"b": "1"}


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
    for template in ("x://{v}", "x://{+v}", "x://{#v}", "x://s{.v}", "x://s{/v}", "x://s{;v}", "x://s{?v}"):
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
        ("x://{}", "invalid variable name ''"),
        ("x://{+}", "invalid variable name ''"),
        ("x://{a,}", "invalid variable name ''"),
        ("x://{ a }", "invalid variable name ' a '"),
        ("x://{a-b}", "invalid variable name 'a-b'"),
        ("x://{a..b}", "invalid variable name 'a..b'"),
        ("x://{a\n}", "invalid variable name"),
        ("x://{ä}", "invalid variable name 'ä'"),
        ("x://{a**}", "invalid variable name 'a*'"),
        ("x://{!a}", "invalid variable name '!a'"),
        ("x://{a:3}", "prefix modifier"),
        ("x://{a}/{b}/{a}", "the variable 'a' twice"),
        ("x://{a}{?a}", "the variable 'a' twice"),
        ("x://{a*}", "explodes 'a'"),
        ("x://{+a*}", "explodes 'a'"),
        ("x://{?a*}", "explodes 'a'"),
        ("x://{+a}/{+b}", "two greedy variables, 'a' and 'b'"),
        ("x://{+a}{#b}", "two greedy variables"),
        ("x://{/a*}/x{/b*}", "two greedy variables"),
        ("x://{a}{b}", "nothing between the variables 'a' and 'b'"),
        ("x://{+a}{b}", "nothing between the variables"),
        ("x://{a}{/b*}", "nothing between the variables"),
        ("x://{?a}/b", "not at its end"),
        ("x://{?a}{#b}", "not at its end"),
        ("x://{?a}{?b}", "not at its end"),
        ("x://s{&a}", "no '?' before 'a'"),
        ("x://s?q={q}{?a}", "'?' or '#' before its query"),
        ("x://s?q={q}{&a}", "no '?' before 'a'"),
        ("x://s#x{?a}", "'?' or '#' before its query"),
        ("x://s{#x}{?a}", "'?' or '#' before its query"),
        ("x://s?b=1#x{&a}", "'?' or '#' before its query"),
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
    template = URITemplate("x://{a}/{+b}{.c}{?d,e}")
    assert template.variables == ("a", "b", "c", "d", "e")
    assert (template.optional, template.greedy, template.exploded) == ({"d", "e"}, "b", set())
    assert repr(template) == "URITemplate('x://{a}/{+b}{.c}{?d,e}')"
    assert URITemplate("x://{a}").greedy is None


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("x://{a}/y/{b}", "x://{c}/y/{d}", True),
        ("x://s/{a}", "x://s{/b}", True),
        ("x://{a}", "x://{b}{?c}", True),
        ("x://{+a}", "x://{+b}", True),
        ("x://s{/a*}", "x://s{/b*}", True),
        ("x://s?k=1&l=2{&a}", "x://s?l=2&k=1{&b}", True),
        ("x://{a}", "x://{+a}", False),
        ("x://s{/a*}", "x://s{.b*}", False),
        ("x://s{;a*}", "x://s{;b*}", False),
        ("x://s{;a}", "x://s{;b}", False),
        ("x://{a}/y", "x://{a}/z", False),
        ("x://s?k=1{&a}", "x://s?k=2{&a}", False),
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
        URITemplate("x://{a}").expand({"a": ["b"]})
    with pytest.raises(TypeError, match="'a' takes a list of strings, got 'bc'"):
        URITemplate("x://s{/a*}").expand({"a": "bc"})


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
        (["a", ".."], "'..'"),
        (["a", "/x"], "absolute"),
        (["", "etc", "passwd"], "absolute"),
    ],
)
def test_a_dangerous_path_is_refused_unless_its_parameter_is_exempt(value: Any, words: str) -> None:
    reason = screen({"name": "ok", "path": value})
    assert reason is not None
    assert words in reason
    assert "'path'" in reason
    assert screen({"path": value}, frozenset({"path"})) is None
    assert screen({"path": value}, frozenset({"name"})) is not None


@pytest.mark.parametrize(
    "value", ["", ".", "a/b", "1.0..2.0", "...", "..a", "a..", "%2e%2e", "ab:c", ["a", "b"], [], [".a"]]
)
def test_an_ordinary_value_is_accepted(value: Any) -> None:
    assert screen({"path": value}) is None

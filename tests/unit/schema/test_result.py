"""Results: values of every type become a Result, or an error."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import pathlib
import uuid
from collections import OrderedDict, UserDict, deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from toolcrib import Image, Link, Result
from toolcrib.content import text_block
from toolcrib.errors import InvalidResultError
from toolcrib.schema.result import ToolResults


def plan(schema: Any = None, dump: Any = None) -> ToolResults:
    return ToolResults("made", schema, dump, trusted=False)


def finish(value: Any, schema: Any = None) -> Result:
    return plan(schema).finish(value)


def refusal(value: Any, schema: Any = None) -> str:
    with pytest.raises(InvalidResultError) as refused:
        finish(value, schema)
    head = "Tool 'made' returned a result that cannot be sent: "
    assert str(refused.value).startswith(head)
    assert refused.value.__cause__ is None
    return str(refused.value).removeprefix(head)


class Tone(enum.StrEnum):
    LOUD = "loud"


class Level(enum.IntEnum):
    HIGH = 3


class Words(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Box:
    content: list[int]
    made: dt.date = dt.date(2026, 11, 15)


class Model(BaseModel):
    a: int
    b: list[float] = []


# --- what can be sent ---


@pytest.mark.parametrize(
    ("value", "text"),
    [("words", "words"), ("", ""), ("größe ✓\n", "größe ✓\n"), (Words("own"), "own"), (Tone.LOUD, "loud")],
)
def test_text_is_text(value: str, text: str) -> None:
    result = finish(value)
    assert result.to_json() == {"content": [{"type": "text", "text": text}], "isError": False}
    assert type(result.content[0]["text"]) is str


def test_none_is_an_empty_result() -> None:
    assert finish(None).to_json() == {"content": [], "isError": False}


@pytest.mark.requirement("X-24")
@pytest.mark.parametrize(
    ("value", "plain", "text"),
    [
        (5, 5, "5"),
        (True, True, "true"),
        (2.5, 2.5, "2.5"),
        (10**40, 10**40, "1" + "0" * 40),
        (Level.HIGH, 3, "3"),
        ([], [], "[]"),
        ([1, "a", None], [1, "a", None], '[1,"a",null]'),
        ((1, (2,)), [1, [2]], "[1,[2]]"),
        ({"a": {"b": ()}}, {"a": {"b": []}}, '{"a":{"b":[]}}'),
        ({1: 2}, {"1": 2}, '{"1":2}'),
        (b"\xff", "/w==", '"/w=="'),
        (Point(1, 2), [1, 2], "[1,2]"),
        (Box([1]), {"content": [1], "made": "2026-11-15"}, '{"content":[1],"made":"2026-11-15"}'),
        (Model(a=1), {"a": 1, "b": []}, '{"a":1,"b":[]}'),
        ({"at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}, {"at": "2026-01-02T00:00:00Z"}, None),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000", None),
        (pathlib.PurePosixPath("/a/b"), "/a/b", None),
        (OrderedDict(a=1), {"a": 1}, None),
        (UserDict(a=1), {"a": 1}, None),
        (deque([1, 2]), [1, 2], None),
        (frozenset({1}), [1], None),
        (range(3), [0, 1, 2], None),
        ({"a": 1}.values(), [1], None),
        (iter([1, 2]), [1, 2], None),
        ((n * n for n in range(3)), [0, 1, 4], None),
        ({"content": [1]}, {"content": [1]}, None),
        ({"content": []}.keys(), ["content"], None),
    ],
)
def test_anything_else_is_data_with_its_json_as_text(value: Any, plain: Any, text: str | None) -> None:
    result = finish(value)
    assert result.is_structured
    assert result.structured_content == plain
    assert type(result.structured_content) is type(plain)
    assert result.text == text or text is None


@pytest.mark.parametrize(
    "schema", [{"enum": ["a"]}, {"anyOf": [{"type": "string"}, {"type": "object"}]}, {"type": "string"}]
)
def test_a_text_with_a_schema_is_text_and_data(schema: Any) -> None:
    assert finish("a", schema).to_json() == {
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": "a",
        "isError": False,
    }
    assert refusal("a", {"type": "integer"}).startswith("it does not fit the output schema")
    assert refusal("\ud800", schema) == "it has text that is not valid Unicode"
    assert finish(None, {"type": ["string", "null"]}).to_json()["structuredContent"] is None


def test_media_are_blocks_alone_and_among_other_things() -> None:
    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    assert finish(Image(b"x")).to_json() == {"content": [image], "isError": False}
    mixed = finish(["See", Image(b"x"), 5, Link("a:b", "c"), Words("own")])
    assert [block.get("text", block["type"]) for block in mixed.content] == [
        *("See", "image", "5", "resource_link", "own")
    ]
    assert finish((Image(b"x"),)).content == [image]
    assert finish(iter([Image(b"x")])).content == [image]


# --- shaped by the author ---


def test_a_result_of_the_author_passes_with_plain_parts() -> None:
    made = Result([text_block("a")], Box([1]), False, True, {"k": (1,)})
    result = finish(made)
    assert result is not made
    assert result.to_json() == {
        "content": [{"type": "text", "text": "a"}],
        "structuredContent": {"content": [1], "made": "2026-11-15"},
        "isError": False,
        "_meta": {"k": [1]},
    }


@pytest.mark.parametrize(
    "value",
    [
        {"content": []},
        {"content": [{"type": "text", "text": "a"}], "isError": False},
        {"content": [{"type": "image", "data": "", "mimeType": ""}], "_meta": {"a": 1}},
        {"content": [{"type": "audio", "data": "", "mimeType": "", "annotations": {}}]},
        {"content": [{"type": "resource", "resource": {"uri": "a:b"}}], "structuredContent": {"a": 1}},
        {"content": [{"type": "resource_link", "uri": "a:b", "name": "c"}], "isError": True},
        {"content": [], "structuredContent": None},
    ],
)
def test_a_dict_in_the_shape_of_mcp_passes_as_it_is(value: dict[str, Any]) -> None:
    assert finish(value).to_json() == {"isError": False, **value}


@pytest.mark.parametrize(
    "value",
    [
        {"content": "text"},
        {"content": [], "other": 1},
        {"content": ["text"]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": "video", "data": ""}]},
        {"content": [{"type": []}]},
        {"content": [{}]},
        {"content": [], "isError": 1},
        {"content": [], "_meta": []},
    ],
)
def test_a_dict_in_another_shape_is_data(value: dict[str, Any]) -> None:
    assert finish(value).structured_content == value


@pytest.mark.parametrize("schema", [None, {"type": "object", "required": ["code"]}])
@pytest.mark.parametrize("is_error", [False, True])
def test_other_keys_beside_is_error_are_data(schema: Any, is_error: bool) -> None:
    value = {"content": [{"type": "text", "text": "No such order."}], "isError": is_error, "code": 404}
    assert finish(value, schema).to_json() == {
        "content": value["content"],
        "structuredContent": value,
        "isError": is_error,
    }


def test_other_keys_do_not_replace_data_of_the_author() -> None:
    value = {"content": [], "isError": True, "structuredContent": {"code": 404}, "took_ms": 5}
    assert finish(value).to_json() == {"content": [], "isError": True, "structuredContent": {"code": 404}}


def test_a_published_schema_requires_data() -> None:
    schema = {"type": "object", "required": ["content"]}
    shaped = {"content": [{"type": "text", "text": "a"}]}
    assert finish(shaped, schema).structured_content == shaped
    promised = "it has no structured data, which its output schema requires"
    assert refusal(Result([text_block("a")]), schema) == promised
    assert refusal(Image(b"x"), schema) == promised


def test_an_error_needs_no_data_and_is_not_checked() -> None:
    schema = {"type": "integer"}
    assert finish(Result([text_block("a")], is_error=True), schema).is_error
    assert finish({"content": [], "isError": True}, schema).to_json() == {"content": [], "isError": True}
    assert finish(Result.of("a", "not an integer"), {"type": "string"}).structured_content == "not an integer"
    wrong = Result([], "not an integer", is_error=True, is_structured=True)
    assert finish(wrong, schema).structured_content == "not an integer"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Result("text"), "its content is not a list of blocks"),  # type: ignore[arg-type]
        (Result(["text"]), "its content is not a list of blocks"),  # type: ignore[list-item]
        (Result([{"type": "text"}]), "its content is not a list of blocks"),
        (Result(meta=[1]), "its meta is not a dict"),  # type: ignore[arg-type]
        (Result([text_block("\ud800")]), "text that is not valid Unicode"),
        (Result(meta={"a": math.nan}), "nan at '_meta.a' is not a JSON number"),
        (Result(meta={"a": object()}), "object"),
    ],
)
def test_a_result_object_is_checked_completely(value: Result, words: str) -> None:
    assert words in refusal(value)


# --- what cannot be sent ---


def circle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def nest(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param("\ud800", "it has text that is not valid Unicode", id="surrogate"),
        pytest.param({"a": ["\udcff"]}, "it has text that is not valid Unicode", id="nested surrogate"),
        pytest.param(math.nan, "nan at 'result' is not a JSON number", id="nan"),
        pytest.param({"a": [0.0, -math.inf]}, "-inf at 'a[1]' is not a JSON number", id="infinity"),
        pytest.param(circle(), "it is nested too deeply or refers to itself", id="circle"),
        pytest.param(nest(100_000), "it is nested too deeply or refers to itself", id="deep"),
        pytest.param(10**5_000, "an integer has too many digits", id="digits"),
        pytest.param(object(), "object", id="object"),
        pytest.param({"a": {"b": len}}, "builtin", id="function"),
        pytest.param({(1, 2): 3}, "keys", id="key"),
        pytest.param("x" * (17 << 20), "it is larger than 16384 KiB (ask for less at a time;", id="text"),
        pytest.param("ä" * (9 << 20), "it is larger than 16384 KiB", id="wide text"),
        pytest.param(["x" * 1_000] * 20_000, "it is larger than 16384 KiB", id="data"),
        pytest.param(Image(b"x" * (13 << 20)), "it is larger than 16384 KiB", id="image"),
        pytest.param([Image(b"x" * (7 << 20))] * 2, "it is larger than 16384 KiB", id="images"),
        pytest.param(Result(meta={"a": "x" * (17 << 20)}), "it is larger than 16384 KiB", id="meta"),
    ],
)
def test_values_that_cannot_be_sent_are_refused(value: Any, words: str) -> None:
    told = refusal(value)
    assert words in told
    assert len(told) < 200


def test_an_endless_generator_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan()
    made.max_bytes = 100

    def count() -> Iterator[int]:
        number = 0
        while True:
            yield (number := number + 1)

    with pytest.raises(InvalidResultError, match="more than 50 items"):
        made.finish(count())
    assert len(made.finish(iter([1] * 40)).structured_content) == 40


async def test_an_endless_async_generator_ends() -> None:
    made = plan()
    made.max_bytes = 100

    async def count(to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    assert await made.gather(count(50)) == list(range(50))
    endless = count(1_000)
    with pytest.raises(InvalidResultError, match="more than 50 items"):
        await made.gather(endless)
    await endless.aclose()


# --- the output schema ---


def test_data_keeps_to_the_output_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert finish({"a": 1}, schema).structured_content == {"a": 1}
    assert refusal({"a": "x"}, schema) == "it does not fit the output schema (a: expected integer)"
    assert refusal({}, schema) == "it does not fit the output schema (a: required, but missing)"
    assert refusal("x", schema) == "it does not fit the output schema (result: expected object)"
    assert refusal(Result.of("", {"a": "x"}), schema).startswith("it does not fit the output schema")


def test_only_some_problems_are_reported_and_no_values() -> None:
    told = refusal(["secret"] * 50, {"items": {"type": "integer"}})
    assert told.count("expected integer") == 5
    assert "secret" not in told
    assert refusal(["x"] * 50_000, {"items": {"type": "integer"}}) == ("it does not fit the output schema")


def test_data_that_would_cost_too_much_to_check_is_refused() -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
    assert finish(nest(100), schema).is_structured
    assert refusal(nest(300), schema) == "it is nested deeper than 256 levels"


def test_only_declared_fields_are_sent() -> None:
    made = plan({"type": "object"}, dump=lambda value: {"a": value["a"]})
    assert made.finish({"a": 1, "secret": 2}).structured_content == {"a": 1}
    assert made.finish(Result.of("", {"a": 1, "secret": 2})).structured_content == {"a": 1}
    assert plan({"type": "integer"}, dump=lambda value: 1 / 0).finish(5).structured_content == 5


def test_the_validator_is_compiled_once_and_only_where_there_is_a_schema() -> None:
    assert plan().validator is None
    made = plan({"type": "integer"})
    assert made.validator is made.validator

"""Results of worker processes: converted there, checked here."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from toolcrib import Image, Result
from toolcrib.errors import InvalidResultError
from toolcrib.schema.result import ResultConverter, ToolResults
from toolcrib.validation.codec import decode

INTEGER = {"type": "integer"}


@dataclass
class Point:
    x: int


@dataclass
class Place(Point):
    secret: str = "for the worker only"


def point() -> Point:
    return Point(1)


def convert(value: Any, *, function: Any = None, has_schema: bool = False) -> Any:
    converter = ResultConverter("made", function, has_schema=has_schema)
    return decode(pickle.loads(pickle.dumps(converter))(value))


def plan(schema: Any = None, dump: Any = None) -> ToolResults:
    return ToolResults("made", schema, dump, trusted=False)


@pytest.mark.parametrize(
    ("value", "draft"),
    [
        ("words", ["text", "words"]),
        (5, ["data", 5]),
        (Point(1), ["data", {"x": 1}]),
        (None, ["result", {"content": [], "isError": False}]),
    ],
)
def test_a_value_is_drafted_and_received_as_it_would_be_finished(value: Any, draft: Any) -> None:
    assert convert(value) == draft
    assert plan().receive(draft) == plan().finish(value)


def test_a_worker_sends_only_declared_fields() -> None:
    assert convert(Place(1), function=point, has_schema=True) == ["data", {"x": 1}]


def test_a_text_with_a_schema_stays_text() -> None:
    schema = {"anyOf": [{"type": "string"}, {"type": "object"}]}
    assert plan(schema).receive(convert("words", has_schema=True)) == plan(schema).finish("words")
    assert plan(schema).finish("words").text == "words"


def test_data_is_not_converted_again() -> None:
    def fail(value: Any) -> Any:
        raise AssertionError

    assert plan(INTEGER, fail).receive(["data", 5]).structured_content == 5
    whole = Result.of("words", 5)
    assert plan(INTEGER, fail).receive(["result", whole.to_json()]) == whole
    assert plan(dump=fail).receive(convert([Image(b"png"), "words"])).text == "words"


@pytest.mark.parametrize(
    ("draft", "why"),
    [
        (None, "its process sent no result"),
        (["text", 5], "its process sent no result"),
        (["text", "words"], "its process sent no result"),
        (["result", {}], "its content is not a list of blocks"),
        (["result", {"content": [], "_meta": 5}], "its meta is not a dict"),
        (["result", {"content": []}], "it has no structured data"),
        (["data", "no number"], "it does not fit the output schema"),
    ],
)
def test_results_of_workers_are_checked(draft: Any, why: str) -> None:
    with pytest.raises(InvalidResultError, match=f"'made' returned a result that cannot be sent: {why}"):
        plan(INTEGER).receive(draft)


def test_a_draft_that_nests_too_deep_is_refused() -> None:
    draft: Any = []
    for _ in range(100_000):
        draft = [draft]
    with pytest.raises(InvalidResultError, match="nested too deeply"):
        plan().receive(["data", draft])

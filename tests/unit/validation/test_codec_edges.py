"""Parsing at the limits of depth and size."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from toolcrib.validation.codec import MAX_DEPTH, parse

DEEPEST = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH


@contextmanager
def little_stack(frames: int) -> Iterator[None]:
    """Room for so many more calls."""
    before = sys.getrecursionlimit()
    for limit in range(1, before):
        try:
            sys.setrecursionlimit(limit)  # refused while it is below what is in use
        except RecursionError:
            continue
        sys.setrecursionlimit(limit + frames)
        break
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_a_document_that_there_is_no_stack_for_is_refused_in_words() -> None:
    with little_stack(MAX_DEPTH // 2):
        try:
            parse(DEEPEST)
        except ValueError as error:
            said = str(error)
        else:
            said = "nested too deeply"  # nothing to say: since 3.12 the stack of C is another one
    assert said == "nested too deeply"
    assert parse(DEEPEST) == json.loads(DEEPEST)


@pytest.mark.parametrize("value", ["a" * 20_000, "ż" * 20_000])
def test_one_long_text_is_a_document(value: str) -> None:
    assert parse(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("data", [b'"\xff"', b'"\xed\xa0\x80"', b'{"\xff":1}', b'["abc\xc3"]'])
def test_bytes_that_are_not_text_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not valid UTF-8$"):
        parse(data)

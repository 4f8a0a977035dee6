"""Errors of the author's code while a result is converted."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections import UserDict
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from toolcrib.errors import InvalidResultError
from toolcrib.schema import result as module
from toolcrib.schema.result import ToolResults


class Hostile:
    def __init__(self, where: str, error: type[BaseException]) -> None:
        self.where = where
        self.error = error

    def __iter__(self) -> Iterator[int]:
        raise self.error("secret")

    @property
    def __class__(self) -> Any:
        if self.where == "class":
            raise self.error("secret")
        return list if self.where == "iter" else Hostile

    def __getattr__(self, name: str) -> Any:
        raise self.error("secret")


class Serialized(BaseModel):
    a: int = 1

    @field_serializer("a")
    def show(self, a: int) -> int:
        raise TypeError("secret")


class Lazy(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta:
        raise OverflowError("secret")


class Table(UserDict[str, int]):
    def __iter__(self) -> Iterator[str]:
        raise RecursionError("secret")


def half() -> Iterator[int]:
    yield 1
    raise TypeError("secret")


def endless(level: int = 0) -> Any:
    return endless(level + 1)


class Bottomless(UserDict[str, int]):
    def __iter__(self) -> Iterator[str]:
        return endless()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hostile("class", TypeError),
        lambda: Hostile("iter", TypeError),
        lambda: Hostile("getattr", TypeError),
        lambda: Hostile("getattr", OverflowError),
        lambda: {"a": [Hostile("getattr", TypeError)]},
        Serialized,
        lambda: dt.datetime(2026, 1, 1, tzinfo=Lazy()),
        lambda: Table(a=1),
        lambda: Bottomless(a=1),
        half,
        lambda: {"nested": half()},
    ],
)
def test_errors_of_the_authors_code_come_out_as_they_are(make: Any) -> None:
    with pytest.raises(BaseException) as raised:
        ToolResults("made", None, None, trusted=False).finish(make())
    assert not isinstance(raised.value, InvalidResultError)


def test_our_errors_are_recognised_by_their_traceback() -> None:
    assert pathlib.Path(module.__file__).is_relative_to(module._PACKAGE_FOLDER)
    assert not pathlib.Path(__file__).is_relative_to(module._PACKAGE_FOLDER)

"""Unknown names inside nested models, dataclasses and TypedDicts are refused, as they are at the top."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import attrs
import pytest
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, RootModel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from toolcrib import Tool
from toolcrib.errors import InvalidArgumentsError
from toolcrib.schema.arguments import ToolArguments


class Line(BaseModel):
    article: str
    quantity: int = 1


@dataclasses.dataclass
class Plain:
    article: str
    quantity: int = 1


class Keys(TypedDict, total=False):
    article: str
    quantity: int


class Pair(NamedTuple):
    article: str
    quantity: int = 1


@attrs.define
class Defined:
    article: str
    quantity: int = 1


@pydantic_dataclass
class Checked:
    article: str
    quantity: int = 1


class Described(BaseModel):
    """Described by pydantic itself, because of its validator."""

    article: Annotated[str, BeforeValidator(str)]
    quantity: int = 1


class Order(BaseModel):
    lines: list[Line]


class Outer(BaseModel):
    """Described by pydantic, and so are the classes in it."""

    inner: Described | None = None
    plain: Plain | None = None
    keys: Keys | None = None


class Tree(BaseModel):
    article: str = ""
    quantity: int = 1
    below: list[Tree] = []


def arguments_of(hint: Any, **options: Any) -> ToolArguments:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = hint
    return Tool.from_function(take, description="Take.", **options).arguments


def load(hint: Any, value: Any, **options: Any) -> Any:
    arguments = arguments_of(hint, **options)
    return arguments.bind(arguments.check({"value": value}))["value"]


def refusal(hint: Any, value: Any) -> str:
    with pytest.raises(InvalidArgumentsError) as refused:
        load(hint, value)
    return str(refused.value).partition(":")[2].strip()


BAD = {"article": "x", "quantitty": 5}
MEANT = "not a known name (did you mean 'quantity'?)"


@pytest.mark.parametrize("cls", [Line, Plain, Keys, Pair, Defined, Checked, Described, Tree])
def test_a_misspelt_name_in_an_object_is_refused_with_a_suggestion(cls: Any) -> None:
    assert refusal(cls, BAD) == f"'value.quantitty': {MEANT}"
    assert load(cls, BAD, extra="ignore") == load(cls, {"article": "x"})


@pytest.mark.parametrize(
    ("hint", "wrap", "path"),
    [
        (list[Line], lambda bad: [{"article": "y"}, bad], "value[1].quantitty"),
        (dict[str, Plain], lambda bad: {"a": bad}, "value.a.quantitty"),
        (tuple[int, Keys], lambda bad: [1, bad], "value[1].quantitty"),
        (Line | None, lambda bad: bad, "value.quantitty"),
        (Plain | str | None, lambda bad: bad, "value.quantitty"),
        (Order, lambda bad: {"lines": [bad]}, "value.lines[0].quantitty"),
        (Outer, lambda bad: {"inner": bad}, "value.inner.quantitty"),
        (Outer, lambda bad: {"plain": bad}, "value.plain.quantitty"),
        (Outer, lambda bad: {"keys": bad}, "value.keys.quantitty"),
        (Tree, lambda bad: {"below": [{"below": [bad]}]}, "value.below[0].below[0].quantitty"),
        (RootModel[list[Line]], lambda bad: [bad], "value[0].quantitty"),
    ],
)
def test_names_are_checked_wherever_the_object_is(hint: Any, wrap: Callable[[Any], Any], path: str) -> None:
    assert refusal(hint, wrap(BAD)) == f"'{path}': {MEANT}"


def test_a_name_that_resembles_none_gets_those_that_there_are() -> None:
    expected = "'value.zzz': not a known name (it takes: article, quantity)"
    assert refusal(Line, {"article": "x", "zzz": 1}) == expected


def test_anything_that_is_missing_is_reported_with_what_is_unknown() -> None:
    found = refusal(list[Line], [{"artikle": "x"}])
    assert "'value[0].artikle': not a known name (did you mean 'article'?)" in found
    assert "'value[0].article': required, but missing" in found


def test_the_published_schema_does_not_say_so() -> None:
    assert "additionalProperties" not in str(arguments_of(list[Line]).schema)


def test_only_a_model_that_keeps_others_takes_them() -> None:
    class Allowing(Line):
        model_config = ConfigDict(extra="allow")

    class Ignoring(Line):
        model_config = ConfigDict(extra="ignore")

    class Forbidding(Line):
        model_config = ConfigDict(extra="forbid")

    assert load(Allowing, BAD).quantitty == 5
    for model in (Ignoring, Forbidding):
        assert refusal(model, BAD) == f"'value.quantitty': {MEANT}"


def test_every_name_that_a_model_takes_is_known() -> None:
    class ByName(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        article: str = Field("", alias="Article")

    class Several(BaseModel):
        article: str = Field("", validation_alias=AliasChoices("article", "sku"))

    assert load(ByName, {"article": "x"}).article == load(ByName, {"Article": "x"}).article == "x"
    assert load(Several, {"sku": "x"}).article == "x"
    assert load(list[ByName], [{"article": "x"}])[0].article == "x"


@dataclasses.dataclass
class Short:
    article: str


@dataclasses.dataclass
class Long:
    article: str
    quantity: int = 1


@dataclasses.dataclass
class Card:
    kind: Literal["card"]
    number: str


@dataclasses.dataclass
class Cash:
    kind: Literal["cash"]
    currency: str = "EUR"


def test_the_option_of_a_union_that_has_all_names_is_taken() -> None:
    value = {"article": "x", "quantity": 2}
    assert load(Short | Long, value) == load(Long | Short, value) == Long("x", 2)
    assert load(Short | Long, {"article": "x"}) == Short("x")
    assert load(Short | Long, {**value, "more": 1}, extra="ignore") == Short("x")


def test_the_error_is_the_one_of_the_option_which_was_meant() -> None:
    found = refusal(Card | Cash, {"kind": "cash", "currencey": "CHF"})
    assert found == "'value.currencey': not a known name (did you mean 'currency'?)"


def test_explicit_schemas_are_enforced_as_written() -> None:
    line = {"type": "object", "properties": {"a": {}}}
    schema = {"type": "object", "properties": {"line": line}, "required": ["line"]}

    def take(line: Line) -> None: ...

    arguments = Tool.from_function(take, description="Take.", input_schema=schema).arguments
    assert arguments.check({"line": {"a": 1, "b": 2}}) == {"line": {"a": 1, "b": 2}}

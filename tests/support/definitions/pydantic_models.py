"""Pydantic classes of every style, and two plain ones that differ only in their fields."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")
DAY = dt.date(2026, 1, 31)


class Item(BaseModel):
    """A thing to buy.

    Attributes:
        name: as on the label
        price: in euros
    """

    name: str = Field(max_length=20)
    price: decimal.Decimal = Field(decimal.Decimal("1.5"), ge=0)
    tags: list[str] = Field(default_factory=list, description="labels")
    weight: int | None = Field(None, gt=0)
    day: dt.date = Field(default_factory=dt.date.today)


class Secretive(Item):
    password: str = "hunter2"


class Order(BaseModel):
    first: Item
    rest: list[Item] = []
    parent: Order | None = None


class Raw(BaseModel):
    """Bytes and durations, where pydantic and toolcrib would differ."""

    data: bytes
    span: dt.timedelta
    at: dt.datetime | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date


class After(BaseModel):
    share: float

    @pydantic.field_validator("share")
    @classmethod
    def check(cls, value: float) -> float:
        if value > 1:
            raise ValueError("a share is at most 1")
        return value * 100


class Before(BaseModel):
    """Takes a date in words.

    Attributes:
        day: an ISO date
    """

    model_config = ConfigDict(strict=True)
    day: str
    when: dt.date = DAY

    @pydantic.field_validator("day", mode="before")
    @classmethod
    def shout(cls, value: str) -> str:
        return value.upper()


class Aliased(BaseModel):
    from_: str = Field(alias="from")
    to: str = Field("b", serialization_alias="until")


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    first_name: str


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    name: str = Field(alias="label")


class Chosen(BaseModel):
    ident: int = Field(validation_alias=AliasChoices("id", "number"))


class Extended(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"a": 1}]})
    a: int


class Called(BaseModel):
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(marked=True))
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Titled(BaseModel):
    model_config = ConfigDict(title="Given", extra="allow")
    some_name: int
    other: int = Field(title="By the author")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Owner(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Codes(pydantic.RootModel[list[int]]):
    pass


class Wrapper(BaseModel, Generic[T]):
    item: T


class Computed(BaseModel):
    """A square.

    Attributes:
        side: in cm
    """

    side: int
    hidden: int = Field(1, exclude=True)

    @pydantic.computed_field
    @property
    def area(self) -> int:
        return self.side**2


class Served(BaseModel):
    value: int

    @pydantic.field_serializer("value")
    def show(self, value: int) -> str:
        return f"<{value}>"


class Listed(BaseModel):
    numbers: list[Annotated[int, pydantic.AfterValidator(lambda value: value + 1)]]


class Linked(BaseModel):
    address: pydantic.AnyUrl
    key: pydantic.SecretStr = pydantic.SecretStr("x")


class SelfMade(BaseModel):
    a: int

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return {**handler(schema), "marked": True}


@pydantic.dataclasses.dataclass
class Slot:
    width: int = Field(ge=1, description="in mm", alias="w")
    seed: dataclasses.InitVar[int] = 3


@pydantic.dataclasses.dataclass
class Holder(Generic[T]):
    item: T


class Early(BaseModel):
    late: Late


class Late(BaseModel):
    a: int


@dataclasses.dataclass
class Left:
    a: int


@dataclasses.dataclass
class Right:
    b: int

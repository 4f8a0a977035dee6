"""Tiny source files that use pydantic, each with a function `tool`."""

from __future__ import annotations

HEAD = """
import dataclasses, datetime, decimal, enum, pathlib, uuid, typing, typing as t, collections
import collections.abc as abc
from collections import deque, OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum, Flag, IntFlag, auto
from pathlib import Path
from typing import *
import pydantic, annotated_types as at
from pydantic import *
"""

_TEXT = r'''
### model
class User(BaseModel):
    """A user.

    Attributes:
        name: who
    """
    name: str
    age: int = 3
    tags: list[str] = Field(default_factory=list)
    mail: Optional[str] = None
def tool(u: User) -> User: ...

### field
class M(BaseModel):
    a: int = Field(..., gt=0, description='aa')
    b: Annotated[str, Field(min_length=2, alias='bB')] = 'xx'
    c: float = Field(default=1.5, le=3, examples=[1.0], title='C')
def tool(m: M): ...

### parameters
def tool(
    a: int = Field(5, ge=1, description='n'),
    b: Annotated[str, Field(pattern='^a')] = 'a',
    *,
    c: list[int] = Field(default_factory=list),
    d: Annotated[int, Field(gt=0, alias='dd')] = 1,
): ...

### bounds
def tool(
    a: Annotated[int, at.Ge(1), at.Lt(5)],
    b: Annotated[list[int], at.Len(1, 3)],
    c: Annotated[str, StringConstraints(max_length=3)],
    d: conint(gt=3),
    e: constr(min_length=2),
): ...

### config
class M(BaseModel):
    model_config = ConfigDict(extra='forbid', json_schema_extra={'examples': [{'a': 1}]})
    a: int
class N(BaseModel, extra='allow'):
    b: int
class O(BaseModel):
    model_config = {'populate_by_name': True}
    c: int = Field(alias='C')
def tool(m: M, n: N, o: O): ...

### camel
from pydantic.alias_generators import to_camel
class M(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    first_name: str
def tool(m: M) -> M: ...

### inherited
class A(BaseModel):
    x: int
class B(A):
    """b"""
    y: list[A] = []
class C(B):
    x: int = 4
def tool(b: B, c: C): ...

### generic
T = TypeVar('T')
class Page(BaseModel, Generic[T]):
    items: list[T]
class I(BaseModel):
    i: int
def tool(p: Page[int]) -> Page[I]: ...

### root
class R(RootModel[list[int]]):
    """r"""
class S(RootModel):
    root: dict[str, int]
def tool(r: R, s: S): ...

### validators
class M(BaseModel):
    a: int
    b: str
    @field_validator('a')
    @classmethod
    def check(cls, v): return v
    @model_validator(mode='after')
    def whole(self): return self
def tool(m: M): ...

### before validators
class M(BaseModel):
    a: int
    @field_validator('a', mode='before')
    @classmethod
    def check(cls, v: Any, info: ValidationInfo) -> Any: return v
class N(BaseModel):
    b: int
    @model_validator(mode='before')
    @classmethod
    def prep(cls, data: Any) -> Any: return data
def tool(m: M, n: N): ...

### annotated validators
def clean(v: str) -> str: return v
Name = Annotated[str, AfterValidator(clean)]
Num = Annotated[int, BeforeValidator(lambda v: v)]
def tool(n: Name, m: Num, o: Annotated[str, AfterValidator(str.strip)] = 'a'): ...

### discriminated
class Cat(BaseModel):
    kind: Literal['cat']
class Dog(BaseModel):
    kind: Literal['dog'] = 'dog'
Pet = Annotated[Union[Cat, Dog], Field(discriminator='kind')]
class Home(BaseModel):
    pet: Pet
def tool(p: Pet, h: Home): ...

### pydantic types
def tool(u: HttpUrl, s: SecretStr, p: PositiveInt, d: UUID4, j: Json[int], f: FilePath | None = None): ...

### mixed
@dataclass
class D:
    n: int = 0
class M(BaseModel):
    d: D
    e: 'E'
class E(Enum):
    A = 'a'
def tool(d: D, m: M): ...

### private
class M(BaseModel):
    _secret: int = PrivateAttr(default=3)
    K: ClassVar[int] = 3
    a: int
    def go(self): ...
    @property
    def p(self): ...
def tool(m: M): ...

### factory
import time
class M(BaseModel):
    a: float = Field(default_factory=time.time)
    b: list[int] = Field(default_factory=lambda: [1])
@dataclass
class D:
    c: float = field(default_factory=time.time)
def tool(m: M, d: D, e: float = Field(default_factory=time.time)): ...

### aliases
class M(BaseModel):
    a: int = Field(validation_alias=AliasChoices('x', 'y'))
    b: int = Field(serialization_alias='BB')
def tool(m: M) -> M: ...

### extra schema
class M(BaseModel):
    a: int = Field(json_schema_extra={'unit': 'm'})
def tool(m: M, n: Annotated[int, WithJsonSchema({'type': 'string'})]): ...

### typed dict of extensions
from typing_extensions import TypedDict as TD, NotRequired as NR, Doc
class R(TD):
    a: int
    b: NR[str]
class M(BaseModel):
    r: R
def tool(m: M, x: Annotated[int, Doc('how many')]): ...

### older settings
class M(BaseModel):
    a: int = 1
    b: float = Field(2.5, multiple_of=0.5)
    def helper(self) -> int: return 1
def tool(m: M, n: list[M] = []): ...

### field of a dataclass
@dataclass
class D:
    a: Annotated[int, Field(gt=1, description='aa')]
    b: Annotated[str, Field(alias='bb')] = 'b'
def tool(d: D): ...

### wrapped serializer result
class M(BaseModel):
    a: int
    @field_validator('a', mode='wrap')
    @classmethod
    def around(cls, value, handler): return handler(value)
def tool(m: M) -> list[M]: ...
'''

SNIPPETS = dict(part.split("\n", 1) for part in _TEXT.split("### ")[1:])

_COMPUTED = r'''
### recursive
class N(BaseModel):
    kids: list['N'] = []
    up: Optional['N'] = None
def tool(n: N) -> N: ...

### mutual
class A(BaseModel):
    b: 'Optional[B]' = None
class B(BaseModel):
    a: Optional[A] = None
    c: 'list[C]' = []
class C(A):
    z: int
def tool(a: A, b: B, c: C): ...

### bounds of a list
def tool(f: conlist(int, max_length=2)): ...

### computed
class M(BaseModel):
    a: int
    @computed_field
    @property
    def twice(self) -> int:
        """Two a."""
        return self.a * 2
def tool(m: M) -> M: ...

### model default
class M(BaseModel):
    a: int = 1
    b: str = 'x'
def tool(m: M = M(a=2)): ...

### pydantic dataclass
from pydantic.dataclasses import dataclass as pd
@pd
class D:
    x: int
    y: int = Field(3, gt=1)
@pd(config=ConfigDict(extra='forbid'))
class E:
    d: D
def tool(d: D, e: E): ...
'''
COMPUTED = dict(part.split("\n", 1) for part in _COMPUTED.split("### ")[1:])
"""Models that refer to themselves, or with parts that code makes: a scan announces them."""

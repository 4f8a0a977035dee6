"""Tiny source files, each with a function `tool`, named by their subject."""

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
"""

_TEXT = r'''
### alias
Ids = list[int]
Maybe = Optional[Ids]
def tool(x: Ids, y: Maybe = None) -> Ids: ...

### typed alias
Ids: TypeAlias = 'list[int]'
def tool(x: Ids): ...

### new type
UserId = NewType('UserId', int)
def tool(x: UserId, y: list[UserId]) -> UserId: ...

### type variable
T = TypeVar('T', bound=int)
C = TypeVar('C', str, bytes)
U = TypeVar('U')
def tool(x: T, y: C, z: U) -> T: ...

### generic alias
T = TypeVar('T')
Pair = tuple[T, T]
def tool(x: Pair[int]): ...

### constant
LIMIT = 10
NAMES = ['a', 'b']
BOTH = {'n': NAMES, 'l': LIMIT}
def tool(x: int = LIMIT, y: list[str] = NAMES, z: dict = BOTH): ...

### constant of a class
class Settings:
    limit = 5
    name: str = 'a'
def tool(x: int = Settings.limit, y: str = Settings.name): ...

### enum
class Color(Enum):
    """A color.

    Attributes:
        RED: like blood
    """
    RED = 'red'
    BLUE = 'blue'
def tool(x: Color, y: Color = Color.RED, z: Literal[Color.BLUE] = Color.BLUE) -> Color: ...

### enum of other values
class P(Enum):
    A = (1, 2)
    B = (3, 4)
def tool(x: P, y: P = P.A): ...

### automatic enums
class A(Enum):
    X = auto()
    Y = auto()
class S(StrEnum):
    ONE = auto()
    TWO = 'zwei'
class I(IntEnum):
    LOW = 1
    HIGH = LOW + 4
class F(Flag):
    R = auto()
    W = auto()
def tool(a: A, s: S, i: I, f: F, d: S = S.ONE, e: str = S.TWO.value): ...

### enum with methods
class M(str, Enum):
    A = 'a'
    @property
    def label(self): return 'x'
    def __str__(self): return 'y'
def tool(m: M = M.A): ...

### inherited enum
class Base(Enum):
    def shout(self): ...
class Sub(Base):
    A = 'a'
def tool(x: Sub): ...

### dataclass
@dataclass
class Point:
    """A point.

    Attributes:
        x: to the right
    """
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)
    m: str = field(default='a', metadata={'description': 'mm'})
def tool(p: Point, q: Point | None = None) -> list[Point]: ...

### dataclass options
@dataclass(frozen=True, slots=True, kw_only=True)
class P:
    x: int = 1
    y: str
    k: ClassVar[int] = 3
    i: dataclasses.InitVar[int] = 2
    h: int = field(init=False, default=0)
def tool(p: P): ...

### keywords only from here
@dataclasses.dataclass
class P:
    x: int = 1
    _: dataclasses.KW_ONLY
    y: str
def tool(p: P): ...

### inherited dataclass
@dataclass
class A:
    """A.

    Args:
        x: the x
    """
    x: int
@dataclass
class B(A):
    y: list['A'] = field(default_factory=list)
def tool(b: B) -> A: ...

### generic dataclass
T = TypeVar('T')
@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)
def tool(b: Box[int], c: Box[str]) -> Box[float]: ...

### typed dict
class Row(TypedDict):
    """A row."""
    a: int
    b: NotRequired[str]
class Wide(Row, total=False):
    c: Required[float]
    d: 'list[Row]'
def tool(r: Row, w: Wide) -> Row: ...

### named tuple
class P(NamedTuple):
    """A place."""
    x: int
    y: float = 0.5
def tool(p: P) -> P: ...

### plain class
class Thing:
    def __init__(self, a): ...
class Email(str): ...
class Count(int):
    """n"""
def tool(t: Thing, e: Email, c: Count = 3): ...

### protocol
class P(Protocol):
    def go(self) -> int: ...
def tool(x: P | None = None): ...

### nested class
class Outer:
    class Kind(Enum):
        A = 'a'
    @dataclass
    class In:
        k: 'Outer.Kind'
def tool(k: Outer.Kind, i: Outer.In, d: Outer.Kind = Outer.Kind.A): ...

### shadowed name
class Holder:
    date: Optional[date] = None
    def list(self): ...
list_ = list
str_ = str
def tool(x: list_[int], y: str_): ...

### shadowing class
class str:
    """mine"""
def tool(x: str): ...

### fallback import
try:
    from typing import Annotated as An
except ImportError:
    from typing_extensions import Annotated as An
def tool(x: An[int, 'n']): ...

### redefined
X = int
X = str
def tool(x: X): ...

### asynchronous
async def tool(x: int) -> str:
    """Wait.

    Args:
        x: n
    Returns:
        words
    """
    return 'a'

### generator
def tool(x: int) -> Iterator[int]:
    yield x

### async generator
async def tool(x: int) -> AsyncIterator[int]:
    yield x

### docstring types
def tool(a, b=3, c=None):
    """Do.

    Args:
        a (int): one
        b (list of int): wrong
        c (str, optional): three

    Raises:
        ValueError: when bad
    """
    return a

### context
from toolcrib import Context
import toolcrib
def tool(x: int, ctx: Context) -> str: ...

### media
from toolcrib import Image, Result
def tool(x: int) -> list[Image]: ...

### decorated
def deco(f): return f
@deco
@deco
def tool(x: int): ...

### text constants
import textwrap
T = textwrap.dedent("""
  a
  b""")
def tool(x: str = T, y: str = 'a' + 'b'): ...

### wrong hint
LIMIT = 3
def tool(x: int = LIMIT, *, k: 'int' = 2): ...

### literal alias
Mode = Literal['r', 'w']
def tool(m: Mode = 'r', n: Optional[Mode] = None): ...

### computed numbers
KB = 1024
MB = KB * KB
def tool(x: int = 5 * MB, y: float = KB / 2, z: int = KB - 1): ...

### module constants
import math, sys
def tool(x: float = math.pi, y: int = sys.maxsize): ...

### dates
def tool(x: date = date(2020, 1, 2), y: timedelta = timedelta(days=1)): ...

### http status
from http import HTTPStatus
def tool(x: HTTPStatus): ...
'''

SNIPPETS = dict(part.split("\n", 1) for part in _TEXT.split("### ")[1:])

_COMPUTED = r"""
### version
import sys
if sys.version_info >= (3, 8):
    Number = int
else:
    Number = float
def tool(x: Number): ...

### platform
import sys
if sys.platform == 'win32':
    Number = int
else:
    Number = float
def tool(x: Number): ...

### recursive dataclass
@dataclass
class Node:
    value: int
    children: list['Node'] = field(default_factory=list)
    parent: 'Optional[Node]' = None
def tool(n: Node) -> Node: ...

### mutual dataclasses
@dataclass
class A:
    b: 'B | None' = None
@dataclass
class B:
    a: list[A]
def tool(a: A, b: B): ...

### recursive typed dict
class Tree(TypedDict):
    kids: 'list[Tree]'
    n: NotRequired['Tree']
def tool(t: Tree): ...

### literal in a literal
Mode = Literal['r', 'w']
def tool(m: Literal[Mode, 'x'] = 'x'): ...

### named tuple of itself
class P(NamedTuple):
    x: int
    p: 'P | None' = None
def tool(p: P) -> P: ...

### enum by call
C = Enum('C', 'RED GREEN')
D = Enum('D', {'A': 'a'})
E = IntEnum('E', ['X', 'Y'])
def tool(c: C, d: D, e: E): ...

### typed dict by call
R = TypedDict('R', {'a-b': int, 'c': 'str'}, total=False)
def tool(r: R): ...

### named tuple by call
A = NamedTuple('A', [('x', int), ('y', 'str')])
B = namedtuple('B', 'x y', defaults=[1])
def tool(a: A, b: B): ...

### default instance
@dataclass
class P:
    x: int = 1
    y: str = 'a'
def tool(p: P = P(y='b'), q: P = P(3)): ...

### member by key
class C(Enum):
    A = 'a'
D = {'k': 4}
def tool(x: C = C['A'], y: int = D['k'], z: C = C('a')): ...

### same either way
import os
if os.environ:
    X = list[int]
else:
    X = list[int]
def tool(x: X): ...
"""
COMPUTED = dict(part.split("\n", 1) for part in _COMPUTED.split("### ")[1:])
"""Types that refer to themselves, and types and defaults that calls make when the code runs: a scan announces
them."""

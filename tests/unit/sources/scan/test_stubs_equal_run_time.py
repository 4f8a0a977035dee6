"""Each snippet is read without being run, and really imported: both give one definition, and no finding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.scanning import snippets, snippets_of_models
from tests.support.scanning.scanned_snippet import facts_of, imported, stub_in

LAZY = "from __future__ import annotations\n"
HINTS = [
    "x: int",
    "x: str, /, y: float = 1.5, *, z: bool = False",
    "x: list[int], y: dict[str, list[float]]",
    "x: List[int], y: Dict[str, int], z: Tuple[int, ...]",
    "x: Optional[int] = None, y: Union[int, str] = 3",
    "x: int | None, y: 'int | str | None' = None",
    "x: typing.List['int'], y: t.Optional[t.Dict[str, t.Any]] = None",
    "x: abc.Sequence[str], y: abc.Mapping[str, int], z: Iterable[bytes]",
    "x: Literal['a', 'b'], y: Literal[1, True, None, b'c'] = 1",
    "x: tuple[int, str], y: tuple[()], z: tuple[int, ...] = (1, 2)",
    "x: set[int], y: frozenset[str] = frozenset({'a'}), z: deque[int] | None = None",
    "x: datetime.datetime, y: date, z: datetime.time, w: timedelta = timedelta(hours=2)",
    "x: Decimal = Decimal('1.5'), y: uuid.UUID | None = None, z: Path = Path('a') ",
    "x: Any, y: object, z: 'Any' = None",
    "x: Callable[[int], str] | None = None",
    "x: type[int] | None = None",
    "x, y=1, *, z=None",
    "x: Annotated[int, 'how many'], y: Annotated[str, 'who'] = 'me'",
    "x: OrderedDict[str, int], y: collections.Counter[str], z: collections.defaultdict[str, list]",
    "x: bytes, y: bytearray, z: complex = 1j",
    "x: float = float('1.5'), y: int = -3, z: int = 60 * 60, w: str = 'a' 'b' + 'c'",
    "x: dict[int, str] = {1: 'a'}, y: list[int] = [1, *[2, 3]], z: dict = {**{'a': 1}, 'b': 2}",
    "x: str = f'{1}-{\"a\"}'",
    "x: NoReturn = None, y: LiteralString = 'a'",
    "x: re.Pattern[str]",
    "x: os.PathLike[str]",
    "x: list, y: dict, z: tuple, w: List, v: Dict, u: Tuple",
    "x: 'list[\"int\"]', y: Optional['str'] = None",
]
NOT_AS_TEXT = {"shadowed name", "nested class"}
"""Where annotations as text mean something else at run time, or nothing."""


def compare(source: str, folder: Path) -> None:
    stub = stub_in(folder, source)
    assert [str(finding) for finding in stub.findings] == []
    with imported(folder, source) as module:
        assert facts_of(stub.function) == facts_of(module.tool)


@pytest.mark.parametrize("parameters", HINTS)
@pytest.mark.parametrize("future", ["", LAZY], ids=["objects", "text"])
def test_a_signature_is_read_as_it_is_registered(parameters: str, future: str, tmp_path: Path) -> None:
    body = f"def tool({parameters}) -> dict[str, int]:\n    '''Do it.'''\n"
    compare(f"{future}{snippets.HEAD}import re, os\n{body}", tmp_path)


@pytest.mark.parametrize("name", snippets.SNIPPETS)
def test_a_file_is_read_as_it_is_imported(name: str, tmp_path: Path) -> None:
    compare(snippets.HEAD + snippets.SNIPPETS[name], tmp_path)


@pytest.mark.parametrize("name", [name for name in snippets.SNIPPETS if name not in NOT_AS_TEXT])
def test_a_file_with_annotations_as_text_is_read_as_it_is_imported(name: str, tmp_path: Path) -> None:
    compare(LAZY + snippets.HEAD + snippets.SNIPPETS[name], tmp_path)


@pytest.mark.parametrize("name", snippets_of_models.SNIPPETS)
@pytest.mark.parametrize("future", ["", LAZY], ids=["objects", "text"])
def test_pydantic_is_read_as_it_is_imported(name: str, future: str, tmp_path: Path) -> None:
    compare(future + snippets_of_models.HEAD + snippets_of_models.SNIPPETS[name], tmp_path)


@pytest.mark.parametrize("name", [*snippets.COMPUTED, *snippets_of_models.COMPUTED])
def test_anything_that_calls_make_and_what_refers_to_itself_is_announced(name: str, tmp_path: Path) -> None:
    text = {**snippets.COMPUTED, **snippets_of_models.COMPUTED}[name]
    found = {finding.code for finding in stub_in(tmp_path, snippets_of_models.HEAD + text).findings}
    assert found
    assert found <= {"unresolved-hint", "unresolved-default"}


# --- any annotation, any default ---------------------------------------------------------------------

_LEAVES = [
    "int",
    "str",
    "float",
    "bool",
    "bytes",
    "None",
    "Any",
    "date",
    "Decimal",
    "uuid.UUID",
    "Color",
    "Point",
]
_LITERALS = st.one_of(
    st.integers(), st.text(max_size=8), st.booleans(), st.none(), st.binary(max_size=4)
).map(repr)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    keys = st.sampled_from(["str", "int", "Color"])
    return st.one_of(
        inner.map(lambda a: f"list[{a}]"),
        inner.map(lambda a: f"Optional[{a}]"),
        inner.map(lambda a: f"Annotated[{a}, 'words']"),
        inner.map(lambda a: f"typing.Sequence[{a}]"),
        inner.map(repr),
        st.tuples(keys, inner).map(lambda pair: f"dict[{pair[0]}, {pair[1]}]"),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"Union[{', '.join(parts)}]"),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"tuple[{', '.join(parts)}]"),
        st.lists(_LITERALS, min_size=1, max_size=3).map(lambda parts: f"Literal[{', '.join(parts)}]"),
    )


_ANNOTATIONS = st.recursive(st.sampled_from(_LEAVES), _grow, max_leaves=6)
_DEFAULTS = st.recursive(
    st.one_of(_LITERALS, st.floats(allow_nan=False, allow_infinity=False).map(repr), st.just("Color.RED")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.lists(inner, max_size=3).map(lambda parts: f"({''.join(part + ', ' for part in parts)})"),
        st.dictionaries(st.text(max_size=3), inner, max_size=2).map(
            lambda pairs: "{" + ", ".join(f"{key!r}: {value}" for key, value in pairs.items()) + "}"
        ),
    ),
    max_leaves=5,
)
_CLASSES = """
class Color(Enum):
    RED = "red"
    BLUE = 2
@dataclass
class Point:
    x: int
    color: Color = Color.RED
"""


def _outcome(make: object) -> object:
    """What a function gives as a tool: everything it tells, or the words it is refused with."""
    try:
        return facts_of(make)
    except Exception as error:
        return type(error).__name__, str(error)


@settings(max_examples=max(60, settings().max_examples))
@given(annotation=_ANNOTATIONS, default=_DEFAULTS, result=_ANNOTATIONS, future=st.sampled_from(["", LAZY]))
def test_whatever_is_written_is_read_as_it_is_registered(
    annotation: str, default: str, result: str, future: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("snippet")
    source = (
        f"{future}{snippets.HEAD}{_CLASSES}"
        f"def tool(a: {annotation}, b: {annotation} = None, *, c={default}, d: Any = {default})"
        f" -> {result}:\n"
        "    return a\n"
    )
    stub = stub_in(folder, source)
    assert stub.findings == []
    with imported(folder, source) as module:
        assert _outcome(stub.function) == _outcome(module.tool)

"""Whatever a docstring looks like: reading it never fails, never loses a word and never takes long."""

from __future__ import annotations

import gc
import inspect
import re
import textwrap
import time
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.schema.docstrings import Docstring, Documented, parse_docstring, type_hint_of

# What may go: the words that say what a section or field is, and those that qualify a type.
MARKERS = """
    args arguments parameters params keyword other returns return yields yield raises raise attributes tags
    param parameter arg argument key kwarg type kwtype ivar cvar var attribute vartype rtype ytype except
    exception optional required default defaults
"""


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def words_kept(docs: Docstring) -> set[str]:
    entries = [*docs.params, *docs.attributes, *docs.raises]
    texts = [docs.description, docs.returns, docs.returns_type or "", *docs.tags]
    texts += [part for entry in entries for part in (entry.name, entry.type or "", entry.description)]
    return words_of("\n".join(texts))


def lost_words(text: str) -> set[str]:
    lost = words_of(text) - words_kept(parse_docstring(text))
    return {word for word in lost if word.lower() not in MARKERS.split()}


# --- soup: every kind of line that means something, in an order that means nothing ---

LINES = """
§ § §¦§ §.¦Args:¦args:¦Keyword Args:¦Parameters:¦Returns:¦Yields:¦Raises:¦Attributes:¦Tags:¦Note:¦§:¦§: § §
§ (int, optional): §¦§ (§): § (§): §¦- §: §¦- §¦* §¦*§: §¦**§**: §¦`§`: §¦§, § (§): §¦§.§: §¦§ (unclosed: §
§: § http://§/§¦None¦Parameters¦Other Parameters¦Returns¦Yields¦Raises¦Warns¦Notes¦Examples¦§¦§, §¦----------
--¦---- §¦§ : §¦§ : int, optional¦§, § : {'§', '§'}¦§ :¦int¦dict: §¦:param §: §¦:param § §: §¦:param §, §: §
:param: §¦:param § (§): §¦:type §: §¦:type: §¦:return: §¦:returns §: §¦:rtype: §¦:raises §: §¦:raises: §
:raises §, §: §¦:ivar §: §¦:vartype §: §¦:tags: §, §¦:tags §: §¦:unknown §: §¦@param §: §¦@type §: §
@return: §¦@param § §¦Example: §¦Examples:¦Ejemplo: § §¦```¦>>> §(§)¦Returns: §¦1. §¦§, §, § §¦§ e.g. §.¦§:§ §
§[§, §]: §¦§ | §: §
""".replace("¦", "\n").split("\n")
INDENTS = ["", "", "", "    ", "    ", "        ", "  ", "\t"]


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Lines in any order and depth. Each § is a word of its own: none can be lost behind another."""
    count = 0
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 14))):
        line = draw(st.sampled_from(INDENTS)) + draw(st.sampled_from(LINES))
        while "§" in line:
            line = line.replace("§", f"{'Ww'[count % 2]}ord{count}", 1)
            count += 1
        lines.append(line)
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


@settings(max_examples=4 * settings().max_examples)  # many kinds of line meet in many ways
@given(soups())
def test_no_word_is_lost_from_lines_in_any_order(text: str) -> None:
    assert lost_words(text) == set()


@given(st.text())
def test_no_word_is_lost_from_any_text(text: str) -> None:
    assert lost_words(text) == set()


@given(
    st.lists(
        st.sampled_from([*":@-*`()[]{}.,|'\"\\ \n\t", "    ", "None", "Args:\n", ":param ", "\n---\n", "x"])
    )
)
def test_no_word_is_lost_among_signs(signs: list[str]) -> None:
    assert lost_words("".join(signs)) == set()


def dedent_as_the_compiler_does(text: str) -> str:
    """What Python 3.13 stores as `__doc__`: the common margin gone, everything else as it was."""
    first, *others = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    return "\n".join([first.lstrip(), *[line[margin:] for line in others]])


@given(soups() | st.text(alphabet="aB .:\n-"))
def test_a_docstring_reads_the_same_before_and_after_the_compiler_dedents_it(text: str) -> None:
    assert parse_docstring(dedent_as_the_compiler_does(text)) == parse_docstring(text)


@given(soups())
def test_a_docstring_reads_the_same_at_any_depth_of_the_source(text: str) -> None:
    body = inspect.cleandoc(text)
    first, newline, others = body.partition("\n")
    assert parse_docstring(first + newline + textwrap.indent(others, " " * 8)) == parse_docstring(body)


@given(st.text() | st.text(alphabet="listdcornf[]{}|,'\" 1"))
def test_any_type_text_has_a_hint_or_none_and_never_raises(text: str) -> None:
    type_hint_of(text)


# --- documents: written in each dialect from the same facts, they must give these facts back ---

names = st.from_regex(r"[a-z][a-z_]{0,8}[a-z]", fullmatch=True) | st.sampled_from(
    ["tags", "returns", "args", "x"]
)
types = st.sampled_from(
    [None, "int", "list[str]", "str | None", "dict[str, int]", "{'a', 'b'}", "Optional[User]"]
)
text_words = st.sampled_from(
    [
        "the",
        "City",
        '"London",',
        "e.g.",
        "key:",
        "a: b",
        "(max 256)",
        "x=1",
        "50%",
        "ünï",
        "§",
        "`code`",
        "-",
        "1",
    ]
)


@st.composite
def phrases(draw: st.DrawFn) -> str:
    return " ".join(["The", *draw(st.lists(text_words, max_size=6)), "end"])


@dataclass(frozen=True)
class Facts:
    """What a docstring is about. A description is its lines, as wrapped by its author."""

    prose: list[str]
    params: list[tuple[str, str | None, list[str]]]
    returns: list[str]
    raises: list[tuple[str, list[str]]]
    closing: list[str]


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    wrapped = st.lists(phrases(), min_size=1, max_size=3)
    param_names = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    errors = draw(
        st.lists(st.sampled_from(["ValueError", "KeyError", "http.Error"]), max_size=2, unique=True)
    )
    return Facts(
        prose=draw(st.lists(phrases(), min_size=1, max_size=3)),
        params=[(name, draw(types), draw(wrapped)) for name in param_names],
        returns=draw(st.just([]) | wrapped),
        raises=[(error, draw(wrapped)) for error in errors],
        closing=draw(st.lists(phrases(), max_size=2)),
    )


def write_google(doc: Facts) -> str:
    parts = [*doc.prose, "Args:"]
    for name, type_text, lines in doc.params:
        head = f"    {name} ({type_text}, optional): " if type_text else f"    {name}: "
        parts[-1] += "\n" + head + "\n        ".join(lines)
    if doc.returns:
        parts.append("Returns:\n    " + "\n    ".join(doc.returns))
    if doc.raises:
        rows = [f"\n    {name}: " + "\n        ".join(lines) for name, lines in doc.raises]
        parts.append("Raises:" + "".join(rows))
    return "\n\n".join([*parts, *doc.closing])


def write_numpy(doc: Facts) -> str:
    parts = [*doc.prose, "Parameters\n----------"]
    for name, type_text, lines in doc.params:
        head = f"{name} : {type_text}, optional" if type_text else name
        parts[-1] += "\n" + "\n    ".join([head, *lines])
    if doc.raises:
        rows = ["\n" + "\n    ".join([name, *lines]) for name, lines in doc.raises]
        parts.append("Raises\n------" + "".join(rows))
    parts += doc.closing  # before Returns, where any unindented line is another result
    if doc.returns:
        parts.append("Returns\n-------\n" + "\n    ".join(["dict", *doc.returns]))
    return "\n\n".join(parts)


def write_rest(doc: Facts) -> str:
    fields = [f":param {name}: " + "\n    ".join(lines) for name, _, lines in doc.params]
    fields += [f":type {name}: {type_text}" for name, type_text, _ in doc.params if type_text]
    fields += [":return: " + "\n    ".join(doc.returns)] if doc.returns else []
    fields += [f":raises {name}: " + "\n    ".join(lines) for name, lines in doc.raises]
    return "\n\n".join([*doc.prose, "\n".join(fields), *doc.closing])


@pytest.mark.parametrize(
    ("style", "write"), [("google", write_google), ("numpy", write_numpy), ("rest", write_rest)]
)
@given(doc=facts())
def test_anything_that_was_written_in_a_dialect_is_read_back(style: str, write: object, doc: Facts) -> None:
    assert callable(write)
    docs = parse_docstring("\n" + textwrap.indent(write(doc), "    ") + "\n    ")
    assert docs.style == style
    assert docs.description == "\n\n".join([*doc.prose, *doc.closing])
    assert docs.params == tuple(Documented(name, " ".join(lines), text) for name, text, lines in doc.params)
    assert docs.returns == " ".join(doc.returns)
    assert docs.raises == tuple(Documented(name, " ".join(lines)) for name, lines in doc.raises)
    assert docs.attributes == docs.tags == ()


# --- time ---

SIZE, TIMEOUT_S = (200_000, 4.0) if settings().max_examples > 100 else (60_000, 0.4)
"""Linear work takes a tenth of that time, anything worse takes many times as much."""
RUNS = (
    "a¦ ¦\t¦.¦?! A¦:¦(¦)¦[¦`¦*¦-¦'¦\"¦x,¦. A¦e.g. A¦x (¦x ()¦x)¦x: ¦(default¦x (optional¦| ¦ :¦ )¦\u2003¦\x0b"
)
OPENINGS = (
    "¦Args:\n    x: ¦Args:\n    x (¦Raises:\n    X¦Parameters\n---\nx : ¦Parameters\n---\nx¦Raises\n---\n¦"
    ":param x: ¦:type x: {¦Example: ¦x :¦Returns:\n    x¦Returns:\n    x[] or x["
)
BLOCKS = (
    "\n¦\r¦Args:\n¦Args:\n\n¦Args:\n    x: y\n¦--\n¦- x\n¦```\n\n¦Returns:\n    dict: y\n¦Notes\n-----\n¦"
    "Parameters\n---\nx : int\n¦Returns\n---\nint\n    x\n¦x : int\n    y\n\nProse it is.\n¦:param x: y\n¦"
    ":type x: int\n¦:return: x\n¦:rtype: x\n¦:raises X: y\n¦  :param x: y\n\n¦Example:\n¦Example: x\n    y\n¦"
    "Tags:\n    a, b\n¦\n    :param x: y\n¦z\n    x (int): y\n¦z\n    x y\n¦Args:\n    x (int): y\nz\n    x\n"
)


def measure(text: str) -> float:
    """Return the CPU time of parsing a text, without garbage collections: one in a process that has run many
    tests can take longer than the work."""
    gc.disable()
    try:
        start = time.process_time()
        for entry in parse_docstring(text).params[:1]:
            type_hint_of(entry.type or "")
        return time.process_time() - start
    finally:
        gc.enable()


def slow_ones(opening: str, pieces: list[str]) -> dict[str, float]:
    """The pieces that take too long when there are very many behind this opening, and how long they take."""
    took = {piece: measure(opening + piece * (SIZE // len(piece))) for piece in pieces}
    return {piece: took_s for piece, took_s in took.items() if took_s >= TIMEOUT_S}


@pytest.mark.parametrize("opening", OPENINGS.split("¦"))
def test_one_long_line_takes_linear_time(opening: str) -> None:
    assert slow_ones(opening, RUNS.split("¦")) == {}


@pytest.mark.parametrize("opening", ["", "Parameters\n---\nx : int\n", "Do.\n\nArgs:\n    x (int): y\n"])
def test_very_many_lines_take_linear_time(opening: str) -> None:
    assert slow_ones(opening, BLOCKS.split("¦")) == {}


def test_very_many_parameters_take_linear_time() -> None:
    text = "".join(f":type x{n}: int\n:param x{n}: y\n" for n in range(6000))
    assert measure(text) < TIMEOUT_S
    assert parse_docstring(text).params[-1] == Documented("x5999", "y", "int")

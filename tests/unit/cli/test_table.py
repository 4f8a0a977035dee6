"""Tables that fit the terminal."""

from __future__ import annotations

import re
import time

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.table import Column, format_table
from toolcrib.cli.text import NO_BREAK, safe, width_of, wrap

COLUMNS = (Column("NAME", wraps=False), Column("WORDS"), Column("MORE"))


def lines_of(*rows: tuple[str, ...], width: int = 40, columns: tuple[Column, ...] = COLUMNS) -> list[str]:
    return click.unstyle(format_table(columns, rows, width)).split("\n")


def test_columns_are_as_wide_as_necessary() -> None:
    assert lines_of(("a", "some words", "x"), ("longer", "b", "")) == [
        "NAME    WORDS       MORE",
        "a       some words  x",
        "longer  b",
    ]


def test_the_widest_column_shrinks_first() -> None:
    assert lines_of(("name", "one two three four five six seven", "short")) == [
        "NAME  WORDS                        MORE",
        "name  one two three four five six  short",
        "      seven",
    ]


def test_a_table_without_a_width_is_never_wrapped() -> None:
    row = ("n" * 60, "one two " * 60, "m" * 300)
    assert len(click.unstyle(format_table(COLUMNS, [row], None)).split("\n")) == 2


def test_a_column_that_does_not_wrap_keeps_its_width() -> None:
    lines = lines_of(("n" * 60, "one two three four", "m" * 30))
    assert lines[1:] == [
        "n" * 60 + "  one two three     " + "m" * 16,
        " " * 62 + "four              " + "m" * 14,
    ]


def test_line_breaks_in_cells_are_kept() -> None:
    assert lines_of(("a_\nb", "x", "1\n\n2")) == [
        "NAME  WORDS  MORE",
        "a_    x      1",
        "b",
        "             2",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert lines_of(("日本", "x", "y"), ("a", "b", "c"))[1:] == ["日本  x      y", "a     b      c"]


def test_lines_are_not_broken_at_no_break_blanks() -> None:
    cells = (f"a:{NO_BREAK}bb, long_one:{NO_BREAK}ddd", "x" * 20)
    assert lines_of(cells, columns=(Column(), Column()), width=28)[0].startswith("a: bb,  ")


def test_cells_are_escaped_and_coloured() -> None:
    columns = (Column("N", style={"fg": "green"}, styles={"b": {"bold": True}}), Column("M"))
    text = format_table(columns, [("a\x1b[2J", "\x9b"), ("b", "c\td")], 40)
    assert text.split("\n") == [
        "\x1b[1mN\x1b[0m         \x1b[1mM\x1b[0m",
        "\x1b[32ma\\x1b[2J\x1b[0m  \\x9b",
        "\x1b[1mb\x1b[0m         c       d",
    ]


def test_a_table_without_headings_has_none() -> None:
    assert format_table((Column(), Column()), [("a", "b")], 40) == "a  b"


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.integers(40, 90))
def test_a_table_fits_and_loses_no_letter(rows: list[tuple[str, str]], width: int) -> None:
    lines = lines_of(*rows, width=width, columns=(Column("A"), Column("B")))
    assert all(width_of(line) <= width for line in lines)
    given_letters = sorted("".join("".join(safe(cell).split()) for row in rows for cell in row))
    assert sorted("".join("".join(lines[1:]).split())) == given_letters


@given(st.text(alphabet="ab \n世\u0301"), st.integers(2, 10))
def test_wrapping_loses_no_letter_and_fits(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    assert all(width_of(line) <= width for line in lines)


def test_lines_are_broken_at_blanks_or_within_long_words() -> None:
    assert wrap("one two  three", 8) == ["one two", "three"]
    assert wrap("abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]
    assert wrap("a\n\nb", 4) == ["a", "", "b"]
    assert wrap("ab      ", 3) == ["ab"]
    assert wrap("", 4) == [""]


@pytest.mark.parametrize("piece", ["word ", "x", "é", "世", "a\n", "\t", " ", "e\u0301", "\x1b", "\u200d"])
def test_the_time_to_wrap_grows_with_the_text(piece: str) -> None:
    def spend(size: int) -> float:
        began = time.process_time()
        wrap(piece * size, 78)
        return time.process_time() - began

    small_s = min(spend(20_000) for _ in range(3))
    assert spend(200_000) < 40 * max(small_s, 0.002)

"""Cutting a stream of bytes into lines, however it arrives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.processes import LineReader


def cut(pieces: list[bytes], longest: int = 100) -> tuple[list[bytes], int]:
    reader = LineReader(longest)
    lines = [line for piece in pieces for line in reader.feed(piece)]
    lines.append(reader.end())
    return [line for line in lines if line and not line.isspace()], lines.count(None)


def test_whole_lines_and_pieces_of_lines_are_lines() -> None:
    assert cut([b"one\n", b"two\nthr", b"ee\n", b"four"]) == ([b"one", b"two", b"three", b"four"], 0)


def test_blank_lines_are_none() -> None:
    assert cut([b"\n", b" \r\n", b"a\r\n\n"]) == ([b"a\r"], 0)


def test_a_line_that_is_too_long_is_refused_once_and_skipped() -> None:
    assert cut([b"x" * 60, b"x" * 60, b"x" * 60, b"\nnext\n"]) == ([b"next"], 1)
    assert cut([b"x" * 101 + b"\nnext\n"]) == ([b"next"], 1)
    assert cut([b"x" * 100 + b"\n"]) == ([b"x" * 100], 0)
    assert cut([b"x" * 300]) == ([], 1)


def test_nothing_is_kept_of_a_line_that_is_too_long() -> None:
    lines = LineReader(10)
    assert list(lines.feed(b"x" * 11)) == [None]
    for _ in range(100):
        assert list(lines.feed(b"x" * 1000)) == []
    assert len(lines._held) == 0
    assert list(lines.feed(b"\nok\n")) == [b"ok"]


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"x" * 9, b" "]), max_size=40), st.randoms())
def test_it_makes_no_difference_how_the_bytes_are_cut(parts: list[bytes], random: object) -> None:
    whole = b"".join(parts)
    pieces, start = [], 0
    while start < len(whole):
        step = random.randint(1, 7)  # type: ignore[attr-defined]
        pieces.append(whole[start : start + step])
        start += step
    taken, refused = cut(pieces, 8)
    expected = [line for line in whole.split(b"\n") if line and not line.isspace()]
    assert taken == [line for line in expected if len(line) <= 8]
    assert refused == sum(len(line) > 8 for line in whole.split(b"\n"))

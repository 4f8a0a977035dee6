"""Files become trees, or an error that names file, line and remedy; never a crash, never a long wait."""

from __future__ import annotations

import ast
import contextlib
import os
import socket
import time
from pathlib import Path

import pytest

from toolcrib.errors import SourceError
from toolcrib.sources.source_text import MAX_BYTES, parse_annotation, read_source


def refusal(path: Path) -> SourceError:
    with pytest.raises(SourceError) as caught:
        read_source(path)
    error = caught.value
    assert error.finding.code == "unreadable-source"
    assert error.finding.level == "error"
    assert error.source.file == str(path)
    assert error.hint
    return error


def write(folder: Path, data: bytes | str) -> Path:
    path = folder / "odd.py"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


class TestEncodings:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            ("x = 'é'".encode(), "é"),
            ("\ufeffx = 'é'".encode(), "é"),
            (b"# coding: latin-1\nx = '\xe9'", "é"),
            (b"#!/usr/bin/python\n# -*- coding: cp1252 -*-\nx = '\x80'", "€"),
            ("# vim: set fileencoding=utf-8 :\nx = '€'".encode(), "€"),
            (b"x = 'a'\r\n", "a"),
            (b"x = 'a'\r", "a"),
        ],
    )
    def test_a_cookie_and_a_mark_are_honoured(self, data: bytes, expected: str, tmp_path: Path) -> None:
        tree = read_source(write(tmp_path, data))
        statement = tree.body[0]
        assert isinstance(statement, ast.Assign)
        assert ast.literal_eval(statement.value) == expected

    @pytest.mark.parametrize(
        ("data", "words", "line"),
        [
            (b"# coding: klingon\n", "klingon", 1),
            (b"\xef\xbb\xbf# coding: latin-1\n", "encoding", 1),
            (b"x = 1\ny = '\xe9'\n", "utf-8", None),
            (b"# coding: ascii\ny = 1\nz = '\xe9'\n", "ascii", 3),
            (b"# coding: zlib\nx = 1", "not for text", 1),
            (b"# coding: punycode\nx = 1", "not for text", 1),
            (b"\xff\xfex\x00", "encoding", None),
            (b"x = 1\n\x00y = 2", "null bytes", 2),
        ],
    )
    def test_bytes_that_do_not_decode_are_told(
        self, data: bytes, words: str, line: int | None, tmp_path: Path
    ) -> None:
        error = refusal(write(tmp_path, data))
        assert words in error.message
        assert line is None or error.source.line == line


class TestBrokenSource:
    @pytest.mark.parametrize(
        ("source", "line"),
        [("x = (\n", 1), ("x = 1\ndef\n", 2), ("if True:\nx = 1\n", 2), ("x = 1\n\ty = 2\n", 2), ("f'{'", 1)],
    )
    def test_a_syntax_error_has_its_line(self, source: str, line: int, tmp_path: Path) -> None:
        error = refusal(write(tmp_path, source))
        assert "syntax error" in error.message
        assert error.source.line == line

    def test_odd_escapes_are_nobodys_business(self, tmp_path: Path) -> None:
        assert read_source(write(tmp_path, r"x = '\d'; y = 1 is 1")).body


class TestSpecialFiles:
    def test_a_folder_a_pipe_a_socket_and_a_device_are_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.py")
        (tmp_path / "folder.py").mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s.py"))
            for name in ("pipe.py", "folder.py", "s.py"):
                refusal(tmp_path / name)
        refusal(Path("/dev/zero"))

    def test_anything_that_is_not_there_or_leads_in_circles_is_told(self, tmp_path: Path) -> None:
        assert "No such file" in refusal(tmp_path / "none.py").message
        (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
        refusal(tmp_path / "loop.py")
        refusal(Path("nul\0name.py"))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_anything_that_may_not_be_read_is_told(self, tmp_path: Path) -> None:
        path = write(tmp_path, "x = 1")
        path.chmod(0)
        assert "Permission" in refusal(path).message


HEAVY = {
    "10 MB": b"x = 1\n" * 1_800_000,
    "a chain of attributes": b"a" + b".b" * 190_000,
    "a chain of calls": b"f" + b"()" * 150_000,
    "a chain of subscripts": b"f" + b"[0]" * 120_000,
    "signs": b"-" * 100_000 + b"1",
    "words": b"not " * 100_000 + b"1",
    "lambdas": b"lambda:" * 50_000 + b"1",
    "open brackets": b"(" * 200_000,
    "nested brackets": b"(" * 150 + b"1" + b")" * 150,
    "nested dicts that are wrong": b"{1:" * 90 + b"2 3" + b"}" * 90,
    "a sum": b"1" + b"+1" * 190_000,
    "comparisons": b"a" + b"<a" * 190_000,
    "an endless number": b"9" * 4_000_000,
    "a hexadecimal number": b"0x" + b"f" * 4_000_000,
    "many strings": b"x = (" + b"'a' " * 390_000 + b")",
    "an f-string of many fields": b"x = f'" + b"{a}" * 60_000 + b"'",
    "nested f-strings": b"x = f'{" + b"(" * 190 + b"1" + b")" * 190 + b"}'",
    "elifs": b"if a: pass\n" + b"elif a: pass\n" * 40_000,
    "indentation": b"".join(b" " * i + b"if a:\n" for i in range(300)),
    "one name": b"a" * 4_900_000,
    "one string": b"x = '" + b"a" * 4_900_000 + b"'",
    "statements": b"a;" * 2_000_000,
    "a string without end": b"'''" + b"a\n" * 2_000_000,
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_hostile_file_is_done_with_soon(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, HEAVY[name])
    start = time.process_time()
    with contextlib.suppress(SourceError):
        read_source(path)
    assert time.process_time() - start < 2


def test_a_file_that_is_too_large_is_told_by_its_size(tmp_path: Path) -> None:
    assert f"{MAX_BYTES * 2 // 1024**2}.0 MB" in refusal(write(tmp_path, b"#" * MAX_BYTES * 2)).message
    assert "words and signs" in refusal(write(tmp_path, b"a;" * 1_000_000)).message


class TestAnnotations:
    def test_text_is_an_expression(self) -> None:
        found = parse_annotation(" list[\nint] ", 7)
        assert isinstance(found, ast.Subscript)
        assert found.lineno == found.slice.lineno == 7

    @pytest.mark.parametrize(
        "text", ["", "no type!", "x = 1", "a\0", "(" * 300, "[" * 150 + "x", "a" * 20_000]
    )
    def test_anything_that_is_none_is_none(self, text: str) -> None:
        assert parse_annotation(text, 1) is None

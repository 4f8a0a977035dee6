"""Read Python source without running it: size limits, encodings, syntax.

A file that cannot be read is a SourceError with its line and what to do. One that is too large or too deeply
nested is refused, so that no file takes long.
"""

from __future__ import annotations

import ast
import gc
import io
import os
import re
import stat
import sys
import tokenize
import unicodedata
import warnings
from pathlib import Path

from toolcrib.errors import Location, SourceError

MAX_BYTES = 5 * 1024 * 1024
MAX_PARTS = 400_000
"""How many words and signs a file may have, roughly: the parser takes about a second for so many."""

_MAX_BYTES_SEARCHED = 8_000_000
_MAX_OPENINGS = 20_000
_MAX_SHOWN = 200
_OLD_FSTRINGS = sys.version_info < (3, 12)
_FSTRING = re.compile(rb"\b(?:[fF][rR]?|[rR][fF])[\"']")
_NO_SIGNS = bytes(code for code in range(256) if chr(code).isalnum() or code > 127 or chr(code) in " \t_\"'")
_NEWER_SYNTAX = (
    ((3, 12), re.compile(r"^\s*type\s+\w+\s*(?:\[|=)|^\s*(?:async\s+def|def|class)\s+\w+\s*\[")),
    ((3, 14), re.compile(r"""^\s*except\s+[\w.]+\s*,|\b[tT][rR]?["']""")),
)
"""Statements that older versions of Python cannot parse, by the version that brought them."""
_SLOW_CODECS = frozenset({"idna", "punycode", "undefined"})  # none writes programs in them; two are quadratic


def read_source(path: Path) -> ast.Module:
    """The syntax tree of a file. Raises SourceError where there is none to be had."""
    return parse_text(read_text(path), path)


def read_words(path: Path) -> bytes | None:
    """Return the text of a file with identifiers as Python reads them; None where that takes a parser."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES_SEARCHED:
            return None
        with open(path, "rb", buffering=0) as stream:
            data = stream.readall()
    except OSError:
        return None
    if data.isascii():
        return data
    return unicodedata.normalize("NFKC", data.decode(errors="replace")).encode()


def read_text(path: Path) -> str:
    """The text of a file that may be parsed. Raises SourceError where there is none."""
    data = _read(path)
    _refuse_burden(data, path)
    return _decode(data, path)


def parse_text(text: str, path: Path) -> ast.Module:
    """The syntax tree of the text of a file. Raises SourceError where it has none."""
    was_collecting = gc.isenabled()
    gc.disable()  # a tree is many new objects and no garbage: looking for some doubles the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes and the like: their author's business
            return ast.parse(text, str(path))
    except SyntaxError as error:
        raise _explain(error, text, path) from None
    except (RecursionError, MemoryError):
        words = f"{path.name} is nested too deeply to be read"
        raise _refusal(path, words, "split its expressions") from None
    except ValueError as error:
        words = f"{path.name} cannot be parsed: {error}"
        raise _refusal(path, words, "save it as UTF-8 text") from None
    finally:
        if was_collecting:
            gc.enable()


def check_compiles(tree: ast.Module, text: str, path: Path) -> None:
    """Raise SourceError where a file has a syntax tree, and Python refuses to compile it all the same."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _explain(error, text, path) from None
    except (RecursionError, MemoryError, ValueError):
        return  # nested too deeply to be compiled here: the tree could be read


def _explain(error: SyntaxError, text: str, path: Path) -> SourceError:
    lines = text.splitlines()
    line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
    for version, pattern in _NEWER_SYNTAX:
        if sys.version_info < version and pattern.search(line):
            name, running = ".".join(map(str, version)), ".".join(map(str, sys.version_info[:2]))
            words = f"{path.name} uses syntax of Python {name}, and this is Python {running}: {error.msg}"
            return _refusal(path, words, f"scan it with Python {name} or newer", error.lineno)
    words = f"{path.name} has a syntax error: {error.msg}"
    refusal = _refusal(path, words, "correct it; importing it fails as well", error.lineno)
    refusal.excerpt = show_syntax_error(error)
    return refusal


def show_syntax_error(error: SyntaxError) -> str | None:
    """Return the line of a syntax error, and below it a mark at the place."""
    line = (error.text or "").rstrip()
    if not line.strip() or not error.offset:
        return None
    line = line.expandtabs(1)
    margin = len(line) - len(line.lstrip())
    start = max(error.offset - 1, margin)
    is_on_line = error.end_lineno == error.lineno and (error.end_offset or 0) > error.offset
    width = min((error.end_offset or 0) - error.offset, len(line) - start) if is_on_line else 1
    if len(line) > _MAX_SHOWN:
        return None
    return f"{line[margin:]}\n{' ' * (start - margin)}{'^' * max(width, 1)}"


def parse_annotation(text: str, line: int) -> ast.expr | None:
    """The expression in a string annotation; None where there is none. All of it is given the same line."""
    if len(text) > 10_000 or "\0" in text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ast.parse(text.strip() if "\n" not in text else f"({text})", mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return None
    for node in ast.walk(found):
        if isinstance(node, ast.expr):
            node.lineno = node.end_lineno = line
    return found


def _read(path: Path) -> bytes:
    try:
        # Without blocking: what lies there may be a pipe that nobody writes to.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _refusal(path, f"{path} cannot be read: {why}", "check the path and its permissions") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise _refusal(path, f"{path} is not a regular file", "give a file of Python source")
        if about.st_size > MAX_BYTES:
            raise _too_large(path, f"has {about.st_size / 1024**2:.1f} MB")
        data = os.read(handle, about.st_size + 1)
        if len(data) != about.st_size:  # it changes while it is read, or is of a kind that has no size
            os.lseek(handle, 0, os.SEEK_SET)
            with open(handle, "rb", closefd=False) as stream:
                data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refusal(path, f"{path} cannot be read: {error.strerror}", "check the disk") from None
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:  # it grew
        raise _too_large(path, f"has more than {MAX_BYTES // 1024**2} MB")
    return data


def _refuse_burden(data: bytes, path: Path) -> None:
    """Refuse what the parser would chew on for long: its time goes with words and signs, not with bytes."""
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise _refusal(path, f"{path.name} contains null bytes", "it is not text; leave it out", line)
    if len(data) > MAX_PARTS:  # there cannot be more parts than bytes
        parts = len(data.translate(None, _NO_SIGNS)) + len(data.split())
        if parts > MAX_PARTS:
            raise _too_large(path, f"has about {parts:,} words and signs")
    # Each field of an f-string costs a look at all of it, before Python 3.12.
    if _OLD_FSTRINGS and data.count(b"{") > _MAX_OPENINGS and _FSTRING.search(data):
        raise _too_large(path, f"has f-strings and {data.count(b'{'):,} braces")


def _too_large(path: Path, size: str) -> SourceError:
    words = f"{path.name} {size}, more than is read"
    return _refusal(path, words, "keep data in a data file, or leave the file out")


def _decode(data: bytes, path: Path) -> str:
    if data.isascii() and b"coding" not in data[: data.find(b"\n", data.find(b"\n") + 1)]:
        return data.decode("ascii")  # no encoding is named in the first two lines, and any would do
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding in _SLOW_CODECS:
            raise LookupError(encoding)
        return data.decode(encoding)
    except SyntaxError as error:
        words = f"{path.name} has an encoding that cannot be used: {error.msg or error}"
        raise _refusal(path, words, "save it as UTF-8", 1) from None
    except UnicodeError as error:
        start = getattr(error, "start", 0)
        line = data.count(b"\n", 0, start) + 1
        words = f"{path.name} is not {encoding}: a byte in line {line} does not belong there"
        raise _refusal(
            path, words, "save it as UTF-8, or name its encoding in its first line", line
        ) from None
    except (LookupError, ValueError, AssertionError):
        words = f"{path.name} has an encoding that is not for text"
        raise _refusal(path, words, "save it as UTF-8", 1) from None


def _refusal(path: Path, words: str, hint: str, line: int | None = None) -> SourceError:
    return SourceError(words, source=Location(str(path), line), hint=hint)

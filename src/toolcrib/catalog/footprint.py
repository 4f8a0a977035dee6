"""What a reading of source files depends on: the bytes of those that were read, and the absence of others.

A file is known by the SHA-1 of its bytes, never by its date: dates can be set, copied and shared. A file that
is imported and not there changes the reading the day it appears, and one that held no tool the day it gets
one, so what imports could lead to is listed too, rather too much than too little. Knows files and names;
refuses to know tools.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolcrib.sources.loading import place_of

_YOUNG_NS = 2_000_000_000
"""What was changed this shortly before may be changed again unseen: the clocks of file systems are coarse."""
_MAX_BYTES = 16 * 1024 * 1024
_MAX_FILES = 20_000
_CHUNK = 1024 * 1024
_READING = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_NEVER_READ = frozenset({"mcp", "fastmcp", "pydantic", "toolcrib", *sys.stdlib_module_names})
"""Packages that no file beside the scanned ones stands for."""
_IMPORT = re.compile(r"\b(?:from\s+([.\w]+)\s+)?import\s*(\([^)]*\)|[^\n;#]*)")
_NAME = re.compile(r"[^\W\d][\w.]*")


def hash_files(paths: Iterable[str | Path]) -> dict[str, str]:
    """The SHA-1 of every file, by its absolute path; "" for one that cannot be read."""
    return {os.path.abspath(path): hash_file(path) for path in paths}


def hash_file(path: str | Path) -> str:
    """The SHA-1 of a plain file, "" for anything else. Written for speed: a cache asks it of every file."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        descriptor = os.open(path, _READING)
    except (OSError, ValueError):  # ValueError: a name that cannot be one
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        digest = hashlib.sha1(usedforsecurity=False)
        while data := os.read(descriptor, _CHUNK):
            digest.update(data)
        return digest.hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def hash_text(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def was_left_alone(path: str, since_ns: int) -> bool:
    """Whether a file was last changed well before a time."""
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return max(facts.st_mtime_ns, facts.st_ctime_ns) < since_ns - _YOUNG_NS


def follow_imports(files: Iterable[str | Path], roots: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Every file that these may lead to by imports, themselves included, and every file that is not there and
    would be among them if it were. What is installed elsewhere is not followed."""
    waiting = [os.path.abspath(file) for file in files]
    tops = _import_roots(waiting, roots)
    present, absent = set(waiting), set[str]()
    seen: set[tuple[str, str]] = set()
    while waiting and len(present) < _MAX_FILES:
        source = Path(waiting.pop())
        top, parts = place_of(source)
        tops.add(str(top))
        candidates = {str(top / "__init__.py")}  # it would make the folder a package
        package = parts if source.name == "__init__.py" else parts[:-1]
        for name in set(_imported_names(_read_text(source), package)):
            for place in () if name.partition(".")[0] in _NEVER_READ else tops:
                if (place, name) not in seen:
                    seen.add((place, name))
                    candidates.update(_spellings(place, name))
        for candidate in candidates - present - absent:
            if os.path.isfile(candidate):
                present.add(candidate)
                waiting.append(candidate)
            else:
                absent.add(candidate)
    return present, absent


def _import_roots(files: Iterable[str], folders: Iterable[Path]) -> set[str]:
    """Every folder that a scan may begin an import at, links followed or not."""
    places = {os.path.abspath(folder) for folder in folders} | {os.path.dirname(file) for file in files}
    places |= {os.path.realpath(place) for place in places}
    places |= {str(place_of(Path(place, "_.py"))[0]) for place in places}
    return places | {os.path.join(place, "src") for place in places}


def _spellings(place: str, name: str) -> Iterator[str]:
    """The files that are read where a dotted name is imported from a folder."""
    for part in name.split("."):
        place = os.path.join(place, part)
        yield f"{place}.py"
        yield os.path.join(place, "__init__.py")


def _imported_names(text: str, package: list[str]) -> Iterator[str]:
    """Every dotted name that an import statement may mean; also of those in strings, which does no harm."""
    for found in _IMPORT.finditer(text.replace("\\\n", " ")):
        origin = found[1]
        names = _NAME.findall(found[2])
        if origin is None:
            yield from (name.strip(".") for name in names)
            continue
        bare = origin.lstrip(".")
        climbs = len(origin) - len(bare)
        above = package[: len(package) - climbs + 1] if climbs else []
        base = ".".join([*above, *([bare] if bare else [])])
        if base:
            yield base
        yield from (f"{base}.{name}" if base else name for name in names)


def _read_text(path: Path) -> str:
    """The text of a source file as Python would decode it; "" for what Python could not read either."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, "replace")
    except (OSError, SyntaxError, LookupError, ValueError):
        return ""

"""Checkpoints of the audit log, and the key that seals them.

A checkpoint is a line of JSON that only a holder of the key can write. It names the last record of each
stream that was continued since the line before, and what retention removed; it also names that line, so that
none can be taken out. All lines together cover all streams.

The key is read from a file, or from the environment variable TOOLCRIB_AUDIT_KEY if no file is configured.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Any

from toolcrib.config.atomic_file import PRIVATE, create_file, write_file
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import Head
from toolcrib.validation import codec

VARIABLE = "TOOLCRIB_AUDIT_KEY"
MIN_BYTES = 32
_MAX_BYTES = 4096


class AuditKey:
    """Two keys derived from one, so that a digest can never pass for a seal."""

    __slots__ = ("_seal_key", "digest")

    def __init__(self, master: bytes) -> None:
        inner = blake2b(master, person=b"toolcrib digest").digest()
        self.digest = partial(blake2b, key=inner, digest_size=16)
        """Starts a hash of data that reveals nothing about it without the key."""
        self._seal_key = blake2b(master, person=b"toolcrib seal").digest()

    def seal(self, data: bytes) -> bytes:
        """Return 64 hex digits that only a holder of the key can compute."""
        return hmac.digest(self._seal_key, data, "sha256").hex().encode()

    def is_seal(self, data: bytes, seal: bytes) -> bool:
        return hmac.compare_digest(self.seal(data), seal)


def default_key_file(log: Path) -> Path:
    return log.with_name(f"{log.name}.key")


def find_key(log: Path, key_file: Path | None) -> AuditKey | None:
    """Return the existing key, or None. Raises ConfigurationError for an unusable one."""
    given = os.environ.get(VARIABLE)
    hint = f"a key has at least {MIN_BYTES} random characters: openssl rand -hex 32"
    if key_file is None and given is not None:
        if len(given.strip()) < MIN_BYTES:
            raise ConfigurationError("the audit key is too short", key=VARIABLE, hint=hint)
        return AuditKey(given.strip().encode("utf-8", "surrogateescape"))
    path = key_file or default_key_file(log)
    try:
        data = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        message = f"cannot read the audit key: {error.strerror}"
        raise ConfigurationError(message, file=str(path), key="audit.key_file") from None
    if len(data) < MIN_BYTES:
        message = "the audit key is too short"
        raise ConfigurationError(message, file=str(path), key="audit.key_file", hint=hint)
    return AuditKey(data)


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o007:
            raise ConfigurationError(
                "the audit key is accessible to every user of this machine",
                file=str(path),
                key="audit.key_file",
                hint=f"chmod 600 {path}",
            )
        return file.read(_MAX_BYTES).strip()


def create_key(log: Path, key_file: Path | None) -> AuditKey:
    """Create a key, or return the one another process created at the same time. Raises OSError."""
    path = key_file or default_key_file(log)
    try:
        create_file(path, os.urandom(32).hex().encode() + b"\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # not the name of the temporary file
    created = find_key(log, path)
    if created is None:
        raise FileNotFoundError(errno.ENOENT, "the audit key was removed at once", str(path))
    return created


try:
    import fcntl as _fcntl
except ImportError:  # pragma: no cover - systems without it support one process per log
    _fcntl = None  # type: ignore[assignment]

fcntl: Any = _fcntl
_SEAL = re.compile(rb',"mac":"([0-9a-f]{64})"\}')
_TAIL = len(b',"mac":"') + 64 + 2
_RECENT_BYTES = 128 * 1024
COMPACT_LINES = 2_000
"""A file with more lines is replaced by one line that says the same."""

Heads = Mapping[str, Head]


def checkpoints_path(log: Path, configured: Path | None) -> Path:
    return log.with_name(f"{log.name}.checkpoints") if configured is None else configured


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A sealed statement: these records were the last of their streams, and those through `pruned` were
    removed because of their age. `previous` is the seal of the line before, empty if there was none."""

    number: int
    at: str
    heads: Heads
    pruned: Heads
    previous: str
    mac: str = ""

    def to_line(self, key: AuditKey) -> bytes:
        facts = {"number": self.number, "at": self.at, "heads": _to_json(self.heads)}
        body = codec.write({**facts, "pruned": _to_json(self.pruned), "previous": self.previous})[:-1]
        return b'%b,"mac":"%b"}' % (body, key.seal(body))


def _to_json(heads: Heads) -> dict[str, list[int | str]]:
    return {stream: [head.seq, head.hash.decode()] for stream, head in heads.items()}


def parse_checkpoint(line: bytes, key: AuditKey | None) -> Checkpoint | None:
    """Parse a line; None if it is not a checkpoint, or not sealed with this key."""
    seal = _SEAL.fullmatch(line[-_TAIL:])
    if seal is None:
        return None
    body = line[:-_TAIL]
    if key is not None and not key.is_seal(body, seal[1]):
        return None
    try:
        facts = codec.decode(body + b"}")
        heads, pruned = _parse_heads(facts.pop("heads")), _parse_heads(facts.pop("pruned"))
        if [type(facts[name]) for name in ("number", "at", "previous")] != [int, str, str]:
            return None
        return Checkpoint(heads=heads, pruned=pruned, mac=seal[1].decode(), **facts)
    except (AttributeError, KeyError, TypeError, ValueError):  # without a key it may come from anywhere
        return None


def _parse_heads(found: dict[str, list[Any]]) -> Heads:
    heads = {stream: Head(seq, text.encode()) for stream, (seq, text) in found.items()}
    if any(type(head.seq) is not int for head in heads.values()):
        raise TypeError
    return heads


@dataclass
class Checkpoints:
    """What the checkpoints of a log say.

    `sealed` has the hashes of records by stream and number, `pruned` the last record of each stream that was
    removed. `problems` are lines that were changed or taken out.
    """

    lines: list[Checkpoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sealed: dict[str, dict[int, set[bytes]]] = field(default_factory=dict)
    pruned: dict[str, Head] = field(default_factory=dict)

    def add(self, checkpoint: Checkpoint) -> None:
        for stream, head in (*checkpoint.heads.items(), *checkpoint.pruned.items()):
            self.expect(stream, head)
        for stream, head in checkpoint.pruned.items():
            self.pruned[stream] = max(head, self.pruned.get(stream, head))

    def expect(self, stream: str, head: Head) -> None:
        self.sealed.setdefault(stream, {}).setdefault(head.seq, set()).add(head.hash)

    def newest(self) -> dict[str, Head]:
        """Return the last record that is known of each stream."""
        found = {}
        for stream, records in self.sealed.items():
            last = max(records)
            found[stream] = Head(last, max(records[last]))
        return found

    def compare(self, copy: Checkpoints) -> None:
        """Use a copy that was kept elsewhere, too."""
        known = {each.number: each.mac for each in self.lines}
        if not known and copy.lines and not copy.lines[0].previous:
            known, self.lines = {each.number: each.mac for each in copy.lines}, copy.lines  # it is complete
        last = max(known, default=0)
        self.problems += copy.problems
        for each in copy.lines:
            self.add(each)
            if each.number > last:
                self.problems.append(f"checkpoint {each.number}, which the copy has, is missing")
            elif known.get(each.number, each.mac) != each.mac:
                self.problems.append(f"checkpoint {each.number} differs from the copy")


def collect_checkpoints(lines: list[bytes], key: AuditKey | None, *, is_copy: bool = False) -> Checkpoints:
    """Return what lines say. A copy may begin anywhere."""
    found = Checkpoints()
    previous = None if is_copy else ""
    for number, line in enumerate(lines, 1):
        checkpoint = parse_checkpoint(line, key)
        if checkpoint is None:
            text = f"line {number} of the checkpoints was changed, or sealed with another key"
            found.problems.append(text)
            previous = None
            continue
        if previous is not None and checkpoint.previous != previous:
            found.problems.append(f"checkpoints before number {checkpoint.number} were removed")
        previous = checkpoint.mac
        found.lines.append(checkpoint)
        found.add(checkpoint)
    return found


class CheckpointFile:
    """Reads and appends checkpoints; several processes may share the file.

    The file is opened and locked for each operation. Appending happens at most once a second.
    """

    def __init__(self, path: Path, key: AuditKey) -> None:
        self.path = path
        self._key = key
        self._last: Checkpoint | None = None
        """The last line that was seen. The next one names it, even if somebody has cut the file."""

    def add(self, at: str, heads: Heads, pruned: Heads | None = None) -> None:
        """Append a checkpoint and wait for the disk. Raises OSError and leaves the file unchanged."""
        with self._locked() as file:
            lines, end = _read_lines(file, _RECENT_BYTES)
            self._see(lines)
            number, previous = (0, "") if self._last is None else (self._last.number, self._last.mac)
            data = Checkpoint(number + 1, at, heads, pruned or {}, previous).to_line(self._key)
            os.ftruncate(file.fileno(), end)  # a killed process may have left an unfinished line
            try:
                if os.write(file.fileno(), data + b"\n") != len(data) + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(file.fileno(), end)
                raise
            self._see([data])

    def read(self) -> Checkpoints:
        with self._locked() as file:
            lines, _ = _read_lines(file)
        self._see(lines)
        return collect_checkpoints(lines, self._key)

    def compact(self, at: str) -> None:
        """Replace many lines by one, unless something is wrong with them. Raises OSError."""
        with self._locked() as file:
            lines, _ = _read_lines(file)
            found = collect_checkpoints(lines, self._key)
            if len(lines) > COMPACT_LINES and not found.problems:
                number = found.lines[-1].number + 1
                line = Checkpoint(number, at, found.newest(), found.pruned, "").to_line(self._key)
                write_file(self.path, line + b"\n", PRIVATE)
                self._see([line])

    def _see(self, lines: list[bytes]) -> None:
        last = parse_checkpoint(lines[-1], self._key) if lines else None
        if last is not None and (self._last is None or last.number > self._last.number):
            self._last = last

    @contextmanager
    def _locked(self) -> Iterator[FileIO]:
        """Open the file, creating it if needed, and lock it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with open(self.path, "a+b", buffering=0, opener=_open_private) as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)  # closing the file releases it
                if _is_same_file(self.path, file):  # another process may have replaced it meanwhile
                    yield file
                    return


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _is_same_file(path: Path, file: FileIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _read_lines(file: FileIO, most: int | None = None) -> tuple[list[bytes], int]:
    """Return the complete lines of a file, or of its last `most` bytes, and where the last of them ends."""
    size = file.seek(0, os.SEEK_END)
    start = 0 if most is None else max(0, size - most)
    file.seek(start)
    *lines, unfinished = file.readall().split(b"\n")
    if start and len(lines) < 2:
        return _read_lines(file)
    return lines[1:] if start else lines, size - len(unfinished)


def read_checkpoints(path: Path, key: AuditKey | None, *, is_copy: bool = False) -> Checkpoints:
    """Return the checkpoints in a file, for a reader."""
    try:
        with open(path, "rb", buffering=0) as file:
            lines, _ = _read_lines(file)
    except FileNotFoundError:
        lines = []
    return collect_checkpoints(lines, key, is_copy=is_copy)

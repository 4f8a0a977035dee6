"""Checkpoints of the audit log, and the key that seals them.

Kinds: `checkpoint` holds number and hash of the last record; `pruned` the last record that retention removed,
which anchors the rest of the chain.

The key is read from a file, or from the environment variable TOOLCRIB_AUDIT_KEY if no file is configured.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

from toolcrib.config.atomic_file import PRIVATE, create_file, write_file
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.record import Head
from toolcrib.validation import codec

VARIABLE = "TOOLCRIB_AUDIT_KEY"
MIN_BYTES = 32
_MAX_BYTES = 4096


class AuditKey:
    """Two keys derived from one, so that a digest can never pass for a seal."""

    __slots__ = ("_digest_state", "_seal_key")

    def __init__(self, master: bytes) -> None:
        inner = blake2b(master, person=b"toolcrib digest").digest()
        self._digest_state = blake2b(key=inner, digest_size=16)
        self._seal_key = blake2b(master, person=b"toolcrib seal").digest()

    def digest(self, data: bytes) -> str:
        """Return 32 hex digits that reveal nothing about the data without the key."""
        state = self._digest_state.copy()
        state.update(data)
        return state.hexdigest()

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
Kind = Literal["checkpoint", "pruned"]
CHECKPOINT_RECORDS = 1_000
CHECKPOINT_S = 60.0
"""A new checkpoint is due after this many records, or this long after the last one."""
_KINDS = ("checkpoint", "pruned")
_SEAL = re.compile(rb',"mac":"([0-9a-f]{64})"\}')
_TAIL = len(b',"mac":"') + 64 + 2
_RECENT_BYTES = 128 * 1024
_RECENT = 200
"""Lines searched for the newest checkpoint: several processes may have written theirs out of order."""


def checkpoints_path(log: Path, configured: Path | None) -> Path:
    return log.with_name(f"{log.name}.checkpoints") if configured is None else configured


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A sealed statement about the log.

    `count` is the number of records the log held; `clock` is a time that cannot jump (see SteadyClock).
    """

    kind: Kind
    seq: int
    hash: str
    count: int
    at: str
    clock: int

    @property
    def head(self) -> Head:
        return Head(self.seq, self.hash.encode())

    def to_line(self, key: AuditKey) -> bytes:
        body = codec.write(asdict(self))[:-1]
        return b'%b,"mac":"%b"}' % (body, key.seal(body))


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
        return Checkpoint(**facts) if _is_valid(facts) else None
    except (TypeError, ValueError):
        return None


def _is_valid(facts: Mapping[str, Any]) -> bool:
    """Check the types of a line that was read without a key, and may come from anywhere."""
    texts = (facts.get("hash"), facts.get("at"))
    numbers = (facts.get("seq"), facts.get("count"), facts.get("clock"))
    return (
        facts.get("kind") in _KINDS
        and all(isinstance(text, str) for text in texts)
        and all(type(number) is int for number in numbers)
    )


class CheckpointLines(NamedTuple):
    """The checkpoints of a log, and the numbers of invalid lines."""

    checkpoints: list[Checkpoint]
    forged: Sequence[int] = ()


def collect_checkpoints(lines: Iterable[tuple[int, Checkpoint | None]]) -> CheckpointLines:
    checkpoints: list[Checkpoint] = []
    forged: list[int] = []
    for number, checkpoint in lines:
        if checkpoint is None:
            forged.append(number)
        else:
            checkpoints.append(checkpoint)
    return CheckpointLines(checkpoints, forged)


class CheckpointFile:
    """Reads and appends checkpoints; several processes may share the file.

    The file is opened and locked for each operation. Appending happens at most once a second.
    """

    def __init__(self, path: Path, key: AuditKey) -> None:
        self.path = path
        self._key = key

    def add(self, checkpoint: Checkpoint) -> None:
        """Append a checkpoint and wait for the disk. Raises OSError and leaves the file unchanged."""
        with self._locked() as file:
            self._append(file, checkpoint)

    def read(self, *, is_recent: bool = False) -> CheckpointLines:
        """Return the checkpoints; with `is_recent`, only those at the end of the file."""
        with self._locked() as file:
            lines, _ = _read_lines(file, _RECENT_BYTES if is_recent else None)
        if is_recent:
            lines = lines[-_RECENT:]
        return collect_checkpoints(
            (number, parse_checkpoint(line, self._key)) for number, line in enumerate(lines, 1)
        )

    def drop_before(self, seq: int) -> None:
        """Drop lines about removed records, unless there are few. Raises OSError."""
        with self._locked() as file:
            lines, _ = _read_lines(file)
            parsed = [(line, parse_checkpoint(line, self._key)) for line in lines]
            kept = [line for line, found in parsed if found is None or found.seq >= seq]
            if len(lines) - len(kept) > _RECENT:
                write_file(self.path, b"".join(line + b"\n" for line in kept), PRIVATE)

    def _append(self, file: FileIO, checkpoint: Checkpoint) -> None:
        _, end = _read_lines(file, _RECENT_BYTES)
        os.ftruncate(file.fileno(), end)  # a killed process may have left an unfinished line
        data = checkpoint.to_line(self._key) + b"\n"
        try:
            if os.write(file.fileno(), data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                os.ftruncate(file.fileno(), end)
            raise

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


def read_checkpoints(path: Path, key: AuditKey | None) -> Iterator[tuple[int, Checkpoint | None]]:
    """Yield line numbers and checkpoints for a reader; None for a line not sealed with this key."""
    try:
        with open(path, "rb", buffering=0) as file:
            lines, _ = _read_lines(file)
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        yield number, parse_checkpoint(line, key)

"""What a log was at a moment, sealed with its key: kept beside it or, better, elsewhere.

Three kinds: `checkpoint`, the last record and its hash; `pruned`, the last record that was removed for its
age, so that the rest still has a beginning; `accepted`, where somebody has decided to go on after damage.
Knows lines of this one file; refuses to know records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from toolcrib.config.atomic_file import write_file
from toolcrib.policy.audit.jsonl_store import GrowingFile, read_lines, read_lines_back
from toolcrib.policy.audit.key import Secret
from toolcrib.validation import codec

Kind = Literal["checkpoint", "pruned", "accepted"]
CHECKPOINT_RECORDS = 1_000
CHECKPOINT_S = 60.0
"""After how many records, or how long, there is a new one."""
_KINDS = ("checkpoint", "pruned", "accepted")
_SEAL = re.compile(rb',"mac":"([0-9a-f]{64})"\}')
_TAIL = len(b',"mac":"') + 64 + 2
_LOOK_BACK = 200
"""Lines among which the newest checkpoint is: several processes may have written theirs out of order."""


def find_seals(log: Path, given: Path | None) -> Path:
    """Where the checkpoints of a log are: beside it, unless another place is given."""
    return log.with_name(f"{log.name}.checkpoints") if given is None else given


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`count` is how many records the log held. `clock` is a time that cannot jump (see retention). `good`
    and `good_hash` are, for `accepted`, of the last record before the damage: from there to `seq` nothing is
    proven."""

    kind: Kind
    seq: int
    hash: str
    count: int
    at: str
    clock: int
    good: int | None = None
    good_hash: str | None = None

    def line(self, secret: Secret) -> bytes:
        facts = {key: value for key, value in asdict(self).items() if value is not None}
        body = codec.write(facts)[:-1]
        return b'%b,"mac":"%b"}' % (body, secret.seal(body))


def read_checkpoint(line: bytes, secret: Secret | None) -> Checkpoint | None:
    """What a line says; None where it is no checkpoint, or not one made with this key."""
    seal = _SEAL.fullmatch(line[-_TAIL:])
    if seal is None:
        return None
    body = line[:-_TAIL]
    if secret is not None and not secret.is_seal(body, seal[1]):
        return None
    try:
        facts = codec.decode(body + b"}")
        return Checkpoint(**facts) if _is_sensible(facts) else None
    except (TypeError, ValueError):
        return None


def _is_sensible(facts: Mapping[str, Any]) -> bool:
    """For lines read without a key, which anybody may have written."""
    texts = (facts.get("hash"), facts.get("at"), facts.get("good_hash", ""))
    numbers = (facts.get("seq"), facts.get("count"), facts.get("clock"), facts.get("good", 0))
    return (
        facts.get("kind") in _KINDS
        and all(isinstance(text, str) for text in texts)
        and all(type(number) is int for number in numbers)
    )


class CheckpointFile:
    """The file of them, for one who writes."""

    def __init__(self, path: Path, secret: Secret) -> None:
        self.path = path
        self._secret = secret
        self._file = GrowingFile(path)

    def add(self, checkpoint: Checkpoint) -> None:
        """On the disk when it returns. Raises OSError, and then the file is as it was."""
        with self._file.locked() as size:
            self._add(checkpoint, size)

    def _add(self, checkpoint: Checkpoint, size: int) -> None:
        size = self._cut_torn(size)
        self._file.extend(checkpoint.line(self._secret) + b"\n", size)
        self._file.sync()

    def newest(self, first: Checkpoint | None) -> tuple[Checkpoint | None, bool]:
        """The newest checkpoint of all, and whether the lines near it are all ours. An empty file begins with
        `first`, where there is one to begin with."""
        with self._file.locked() as size:
            size = self._cut_torn(size)
            if not size:
                if first is not None:
                    self._add(first, 0)
                return first, True
            lines = read_lines_back(self._file.descriptor, size)
            recent = [read_checkpoint(line, self._secret) for _, line in islice(lines, _LOOK_BACK)]
        # Of two with one number the later one counts, which was read first: by then it was accepted, or gone.
        ours = [found for found in recent if found is not None]
        newest = max(ours, key=lambda found: found.seq, default=None)
        return newest, None not in recent

    def _cut_torn(self, size: int) -> int:
        """Remove what a process that was killed left unfinished."""
        end = next((place + len(line) + 1 for place, line in read_lines_back(self._file.descriptor, size)), 0)
        if end != size:
            self._file.cut(end)
        return end

    def read_all(self) -> list[Checkpoint]:
        with self._file.locked() as size:
            lines = [line for _, line in read_lines(self._file.descriptor, 0, size)]
        found = (read_checkpoint(line, self._secret) for line in lines)
        return [checkpoint for checkpoint in found if checkpoint is not None]

    def forget_before(self, seq: int) -> None:
        """Drop the lines about records that are gone, unless there are few. Raises OSError."""
        with self._file.locked() as size:
            lines = [line for _, line in read_lines(self._file.descriptor, 0, size)]
            kept = [
                line
                for line in lines
                if (found := read_checkpoint(line, self._secret)) is None or found.seq >= seq
            ]
            if len(lines) - len(kept) > _LOOK_BACK:
                write_file(self.path, b"".join(line + b"\n" for line in kept), 0o600)

    def close(self) -> None:
        self._file.close()


def read_file(path: Path, secret: Secret | None) -> Iterator[tuple[int, Checkpoint | None]]:
    """Every line's number and what it says, for one who only reads. None: not a checkpoint of this key."""
    try:
        with open(path, "rb") as file:
            lines = read_lines(file.fileno(), 0, os.fstat(file.fileno()).st_size)
            for number, (_, line) in enumerate(lines, start=1):
                yield number, read_checkpoint(line, secret)
    except FileNotFoundError:
        return

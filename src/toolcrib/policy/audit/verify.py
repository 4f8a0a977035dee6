"""Verification of an audit log: every record follows the one before it, and matches the checkpoints.

Without the key this proves only that the records fit each other: somebody who rewrites all of them can make
them fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.policy.audit.checkpoints import CHECKPOINT_RECORDS, CHECKPOINT_S, Checkpoint
from toolcrib.policy.audit.record import NO_RECORD, Head, follows, parse_time, read_head
from toolcrib.validation import codec

MAX_PROBLEMS = 100
_PROGRESS_EVERY = 5_000
_UNKNOWN = b""
"""The hash of an unreadable record: nothing can be said about the next one."""


class Problem(NamedTuple):
    """A finding about a log.

    `seq` is the record concerned, 0 if none is. `kind` is "edited", "missing", "out-of-order", "unreadable",
    "restamped", "truncated", "forged", "unsealed" or "more". `is_accepted` says that an operator decided to
    continue after it.
    """

    seq: int
    kind: str
    words: str
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification.

    `head` is the hash of the last record. `pruned_before` is the first record that retention left, None if it
    removed none. Records after `proven_through` are chained, but no checkpoint covers them yet: anybody
    who can write the file could have made them. `proven_at` is the time of that checkpoint. Without a key
    (`is_keyed`) checkpoints are compared, but anybody may have written them.
    """

    is_sound: bool
    records: int
    first_seq: int
    last_seq: int
    head: str
    checkpoints_checked: int
    problems: list[Problem]
    pruned_before: int | None
    is_keyed: bool
    proven_through: int
    proven_at: str | None = None


class CheckpointLines(NamedTuple):
    """The checkpoints of a log, and the numbers of invalid lines among them. `accepted` are the invalid ones
    that were there when an operator decided to continue."""

    checkpoints: list[Checkpoint]
    forged: Sequence[int] = ()
    accepted: Sequence[int] = ()

    def joined(self, other: CheckpointLines) -> CheckpointLines:
        return CheckpointLines(
            [*self.checkpoints, *other.checkpoints],
            [*self.forged, *other.forged],
            [*self.accepted, *other.accepted],
        )


def collect_checkpoints(lines: Iterable[tuple[int, Checkpoint | None]]) -> CheckpointLines:
    checkpoints: list[Checkpoint] = []
    forged: list[int] = []
    accepted: list[int] = []
    for number, checkpoint in lines:
        if checkpoint is None:
            forged.append(number)
        else:
            checkpoints.append(checkpoint)
            if checkpoint.kind == "accepted":
                accepted += forged
                forged = []
    return CheckpointLines(checkpoints, forged, accepted)


LONG_S = 3 * CHECKPOINT_S
BUSY_S = CHECKPOINT_S / 2
"""A server with many records to seal does so every second."""
BUSY_GAP_S = 1.0


class UnsealedTime:
    """Measures how long a server worked without writing a checkpoint, from the records after the newest one.

    A server seals within a minute, so a long stretch means that checkpoints were cut off or could not be
    written. Silence counts as a minute at most, and as a second of busy work, because a machine may sleep.
    Each run of a server counts separately, since it may have been killed before it could seal. Records that a
    `gap` record announces as late do not count.
    """

    def __init__(self) -> None:
        self._worst_s = 0.0
        self._late = 0
        self._begin()

    def _begin(self) -> None:
        self._worked_s = 0.0
        self._busy_s = 0.0
        self._records = 0
        self._latest: float | None = None

    @property
    def worst_s(self) -> float:
        """The longest time without a checkpoint; 0 if it was never too long."""
        is_long = self._worked_s > LONG_S or (self._records > CHECKPOINT_RECORDS and self._busy_s > BUSY_S)
        return max(self._worst_s, self._worked_s if is_long else 0.0)

    def add(self, line: bytes) -> None:
        try:
            record = codec.decode(line)
            at, kind = parse_time(record["at"]), record["kind"]
            late = int(record.get("late", 0))
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # not a record, which is reported separately
        if kind == "opened":
            self._worst_s = self.worst_s
            self._begin()
        elif kind == "gap":  # comes before or after the late records
            self._late += late
            self._begin()
        elif self._late > 0:
            self._late -= 1
            return
        if self._latest is not None and at > self._latest:
            self._worked_s += min(at - self._latest, CHECKPOINT_S)
            self._busy_s += min(at - self._latest, BUSY_GAP_S)
        self._latest = at if self._latest is None else max(at, self._latest)
        self._records += 1


class Verifier:
    """Checks the lines of a log from first to last."""

    def __init__(
        self,
        lines: CheckpointLines,
        anchors: Sequence[Checkpoint],
        *,
        is_keyed: bool,
        unsealed: UnsealedTime | None = None,
    ) -> None:
        """`anchors` may hold newer `pruned` checkpoints than `lines`. With `unsealed`, work without newer
        checkpoints is a problem too."""
        checkpoints = lines.checkpoints
        self._is_keyed = is_keyed
        self._unsealed = unsealed
        self._problems: list[Problem] = []
        self._is_sound = True
        self._anchors = {each.seq: each.hash.encode() for each in anchors if each.kind == "pruned"}
        self._accepted = [each for each in checkpoints if each.kind == "accepted"]
        self._sealed_hashes: dict[int, set[bytes]] = {}
        for each in checkpoints:
            self._expect(each.seq, each.hash)
            if each.good and each.good_hash is not None:
                self._expect(each.good, each.good_hash)
        self._newest = max((each.seq for each in checkpoints), default=0)
        self._checked = 0
        self._proven = 0
        self._first = 0
        self._times = {each.seq: each.at for each in checkpoints}
        for numbers, is_accepted in ((lines.accepted, True), (lines.forged, False)):
            for number in numbers:
                message = f"line {number} of the checkpoints was changed, or sealed with another key"
                self._add(0, "forged", message, is_accepted=is_accepted)
        if is_keyed and not checkpoints:
            self._add(0, "unsealed", "there is no checkpoint: missing records cannot be detected")

    def _expect(self, seq: int, hash_: str) -> None:
        if seq:
            self._sealed_hashes.setdefault(seq, set()).add(hash_.encode())

    def run(self, lines: Iterator[bytes], progress: Callable[[int], None] | None = None) -> Verdict:
        """Check all lines. `progress` is called now and then with the number of lines checked."""
        head, count, sealed = NO_RECORD, 0, self._sealed_hashes
        unsealed, newest = self._unsealed, self._newest
        for line in lines:
            if count and follows(line, head):
                head = Head(head.seq + 1, line[-66:-2])
            else:
                head = self._step(line, head)
            if head.seq in sealed:
                self._compare(head)
            if unsealed is not None and head.seq > newest:
                unsealed.add(line)
            count += 1
            if progress is not None and not count % _PROGRESS_EVERY:
                progress(count)
        self._finish(head)
        return Verdict(
            is_sound=self._is_sound,
            records=count,
            first_seq=self._first,
            last_seq=head.seq,
            head=(head.hash if count else NO_RECORD.hash).decode(),
            checkpoints_checked=self._checked,
            problems=self._problems,
            pruned_before=self._first if self._first - 1 in self._anchors else None,
            is_keyed=self._is_keyed,
            proven_through=self._proven,
            proven_at=self._times.get(self._proven),
        )

    def _step(self, line: bytes, head: Head) -> Head:
        """Handle a line that does not simply follow. Returns the record that the next line must follow."""
        found = read_head(line)
        if found is None:
            self._add(head.seq + 1, "unreadable", f"record {head.seq + 1} is unreadable")
            return Head(head.seq + 1, _UNKNOWN)
        if not self._first:
            self._first = found.seq
            if found.seq - 1 in self._anchors:
                head = Head(found.seq - 1, self._anchors[found.seq - 1])
        if found.seq <= head.seq:
            message = f"record {found.seq} comes after record {head.seq}: it was moved or duplicated"
            self._add(found.seq, "out-of-order", message, position=head.seq + 1)
            return head
        accepted = next((each for each in self._accepted if each.seq + 1 == found.seq), None)
        if accepted is not None:
            if head.seq < accepted.seq:
                self._report_missing(head.seq + 1, accepted.seq)
            head = accepted.head
        if found.seq > head.seq + 1:
            self._report_missing(head.seq + 1, found.seq - 1)
        elif head.hash != _UNKNOWN and not follows(line, head):
            message = f"record {found.seq} does not match the one before it: one of them was changed"
            self._add(found.seq, "edited", message)
        return found

    def _report_missing(self, first: int, last: int, where: str = "") -> None:
        message = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        self._add(first, "truncated" if where else "missing", message + where)

    def _compare(self, head: Head) -> None:
        self._checked += 1
        if self._sealed_hashes[head.seq] == {head.hash}:
            self._proven = head.seq
        else:
            self._add(head.seq, "restamped", f"record {head.seq} does not match its checkpoint")

    def _finish(self, head: Head) -> None:
        if head.seq < self._newest:
            self._report_missing(head.seq + 1, self._newest, " at the end")
        if self._unsealed is not None and (unsealed_s := self._unsealed.worst_s):
            message = (
                f"the log continued for {unsealed_s:.0f} s after record {self._newest} without a checkpoint: "
                "checkpoints were removed, or could not be written"
            )
            self._add(self._newest + 1, "unsealed", message)

    def _add(
        self, seq: int, kind: str, message: str, *, position: int | None = None, is_accepted: bool = False
    ) -> None:
        position = seq if position is None else position
        is_accepted = is_accepted or any(each.accepts(position) for each in self._accepted)
        self._is_sound = self._is_sound and is_accepted
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(seq, kind, message, is_accepted))
        elif len(self._problems) == MAX_PROBLEMS:
            self._problems.append(Problem(seq, "more", f"more problems from record {seq} on", is_accepted))

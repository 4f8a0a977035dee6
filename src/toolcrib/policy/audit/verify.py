"""Whether a log is what was written: every record follows the one before, and is what checkpoints have seen.

Without the key it is proven that the records fit each other, and no more: who changes all of them can make
them fit. Knows lines and checkpoints; refuses to know where they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolcrib.policy.audit.checkpoints import Checkpoint
from toolcrib.policy.audit.record import NO_RECORD, Head, follows, head_of
from toolcrib.policy.audit.retention import Lag

MAX_PROBLEMS = 100
_STRIDE = 5_000
_UNKNOWN = b""
"""The hash of a record that cannot be read: nothing can be said of the next one."""


class Problem(NamedTuple):
    """`seq` is the record it is about, 0 where it is about none. `kind` is one word: "edited", "missing",
    "out-of-order", "unreadable", "restamped", "truncated", "torn", "forged", "unsealed", "more".
    `is_accepted` says that somebody has decided to go on after it."""

    seq: int
    kind: str
    words: str
    is_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`head` is the hash of the last record. `pruned_before` is the first record that retention has left,
    None where it has ended none. What came after `proven_through` no checkpoint has seen yet: it fits, but
    whoever can write the file could have written it. `proven_at` is when that checkpoint was made. Without a
    key (`is_keyed`) checkpoints are compared, but anybody may have written them."""

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


class Seals(NamedTuple):
    """The checkpoints of a log, and the numbers of lines that are none: `accepted` are those that were there
    when somebody decided to go on."""

    checkpoints: list[Checkpoint]
    forged: Sequence[int] = ()
    accepted: Sequence[int] = ()


def gather(lines: Iterable[tuple[int, Checkpoint | None]]) -> Seals:
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
    return Seals(checkpoints, forged, accepted)


def join(one: Seals, other: Seals) -> Seals:
    """What two files say of one log."""
    return Seals(
        [*one.checkpoints, *other.checkpoints],
        [*one.forged, *other.forged],
        [*one.accepted, *other.accepted],
    )


class Walk:
    """Along the lines of a log, from the first to the last."""

    def __init__(
        self, seals: Seals, anchors: Sequence[Checkpoint], *, is_keyed: bool, lag: Lag | None = None
    ) -> None:
        """With a `lag`, it is also a problem that there are no newer checkpoints than there are."""
        self._is_keyed = is_keyed
        self._lag = lag
        self._problems: list[Problem] = []
        self._is_sound = True
        self._anchors = {each.seq: each.hash.encode() for each in anchors if each.kind == "pruned"}
        self._accepted = [each for each in seals.checkpoints if each.kind == "accepted"]
        self._pins: dict[int, set[bytes]] = {}
        for each in seals.checkpoints:
            self._pin(each.seq, each.hash)
            if each.good and each.good_hash is not None:
                self._pin(each.good, each.good_hash)
        self._newest = max((each.seq for each in seals.checkpoints), default=0)
        self._checked = 0
        self._proven = 0
        self._first = 0
        self._times = {each.seq: each.at for each in seals.checkpoints}
        for numbers, is_accepted in ((seals.accepted, True), (seals.forged, False)):
            for number in numbers:
                words = f"line {number} of the checkpoints was not made with this key, or was changed"
                self._add(0, "forged", words, is_accepted=is_accepted)
        if is_keyed and not seals.checkpoints:
            self._add(0, "unsealed", "there is no checkpoint: whether records are missing cannot be told")

    def _pin(self, seq: int, hash_: str) -> None:
        if seq:
            self._pins.setdefault(seq, set()).add(hash_.encode())

    def judge(
        self, lines: Iterator[bytes], torn_bytes: int, progress: Callable[[int], None] | None
    ) -> Verdict:
        head, count, pins = NO_RECORD, 0, self._pins
        lag, newest = self._lag, self._newest
        for line in lines:
            if count and follows(line, head):
                head = Head(head.seq + 1, line[-66:-2])
            else:
                head = self._step(line, head)
            if head.seq in pins:
                self._compare(head)
            if lag is not None and head.seq > newest:
                lag.add(line)
            count += 1
            if progress is not None and not count % _STRIDE:
                progress(count)
        self._end(head, torn_bytes)
        pruned = self._first if self._first - 1 in self._anchors else None
        return Verdict(
            self._is_sound,
            count,
            self._first,
            head.seq,
            (head.hash if count else NO_RECORD.hash).decode(),
            self._checked,
            self._problems,
            pruned,
            self._is_keyed,
            self._proven,
            self._times.get(self._proven),
        )

    def _step(self, line: bytes, head: Head) -> Head:
        """Past a line that does not simply follow. Returns the record that the next one must follow."""
        found = head_of(line)
        if found is None:
            self._add(head.seq + 1, "unreadable", f"what should be record {head.seq + 1} is no record")
            return Head(head.seq + 1, _UNKNOWN)
        if not self._first:
            self._first = found.seq
            if found.seq - 1 in self._anchors:
                head = Head(found.seq - 1, self._anchors[found.seq - 1])
        if found.seq <= head.seq:
            words = f"record {found.seq} stands behind record {head.seq}: it was moved, or is there twice"
            self._add(found.seq, "out-of-order", words, place=head.seq + 1)
            return head
        accepted = next((each for each in self._accepted if each.seq + 1 == found.seq), None)
        if accepted is not None:
            if head.seq < accepted.seq:
                self._miss(head.seq + 1, accepted.seq)
            head = Head(accepted.seq, accepted.hash.encode())
        if found.seq > head.seq + 1:
            self._miss(head.seq + 1, found.seq - 1)
        elif head.hash != _UNKNOWN and not follows(line, head):
            words = f"record {found.seq} does not fit the one before it: it was changed, or that one was"
            self._add(found.seq, "edited", words)
        return found

    def _miss(self, first: int, last: int, where: str = "") -> None:
        words = f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        self._add(first, "truncated" if where else "missing", words + where)

    def _compare(self, head: Head) -> None:
        self._checked += 1
        if self._pins[head.seq] == {head.hash}:
            self._proven = head.seq
        else:
            self._add(head.seq, "restamped", f"record {head.seq} is not the one that a checkpoint has seen")

    def _end(self, head: Head, torn_bytes: int) -> None:
        if head.seq < self._newest:
            self._miss(head.seq + 1, self._newest, " at the end")
        if torn_bytes:
            words = (
                f"{torn_bytes} bytes at the end are half a record, as a crash leaves it: opening cuts them"
            )
            self._add(head.seq + 1, "torn", words)
        if self._lag is not None and (lag_s := self._lag.worst_s):
            words = (
                f"the log went on for {lag_s:.0f} s behind record {self._newest}, and no checkpoint is "
                "there of it: they were cut off, or could not be written"
            )
            self._add(self._newest + 1, "unsealed", words)

    def _add(
        self, seq: int, kind: str, words: str, *, place: int | None = None, is_accepted: bool = False
    ) -> None:
        place = seq if place is None else place
        if not is_accepted:
            is_accepted = any((each.good or 0) < place <= each.seq for each in self._accepted)
        self._is_sound = self._is_sound and is_accepted
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(seq, kind, words, is_accepted))
        elif len(self._problems) == MAX_PROBLEMS:
            self._problems.append(Problem(seq, "more", f"and more from record {seq} on", is_accepted))

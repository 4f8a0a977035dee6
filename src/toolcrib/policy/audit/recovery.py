"""What a log is when it is opened: what a crash has left is put right, what a crash cannot do is refused.

Looked at is what came after the newest checkpoint, so that a log of any length opens at once; a log of some
thousand records is looked at as a whole. A torn end was cut by the store. Everything else that is not as it
was written is damage: the log then stays closed, unless somebody has said that it shall go on behind the
gap. Knows the chain; refuses to know stores and keys.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from toolcrib.policy.audit.checkpoints import Checkpoint, Kind
from toolcrib.policy.audit.record import NO_RECORD, Entry, Head, compose, follows, head_of
from toolcrib.policy.audit.store import BrokenError, Store, StoreError
from toolcrib.policy.audit.verify import Seals, Walk

WHOLE_RECORDS = 10_000
"""A log of no more records is looked at from its beginning: that takes some hundredths of a second."""

NO_CHECKPOINT = "there are records, but no checkpoint of them that was made with this key"
FOREIGN = "its checkpoints were changed, or made with another key"


class Notary(Protocol):
    """Who reads and writes checkpoints, for this log and at this time."""

    def newest(self, *, is_new: bool) -> tuple[Checkpoint | None, bool]: ...

    def seals(self) -> list[Checkpoint]: ...

    def certify(self, kind: Kind, head: Head, *, count: int, good: Head | None = None) -> None: ...

    def bear(self, words: str, head: Head, *, count: int, good: Head) -> None:
        """Remember that records up to `head` are missing: no checkpoint may say that somebody accepted it."""
        ...

    def stamp_entry(self, facts: dict[str, object]) -> Entry: ...


class Damage(NamedTuple):
    """`good` is the last record that is as it was, `last` the last one that there is, or should be.
    `are_seals_good` says that the damage is not in the checkpoints."""

    words: str
    good: Head
    last: Head
    are_seals_good: bool = True


class Recovered(NamedTuple):
    """What is to be put on the record, and how many records there were behind the newest checkpoint."""

    notes: list[Entry]
    behind: int


def recover(store: Store, notary: Notary, *, accept_gap: bool, is_gone: bool = False) -> Recovered:
    """Raises BrokenError for damage that nobody has accepted, and what stores raise.

    `is_gone` says that the file was deleted or replaced while this process wrote it. Where nothing worse has
    happened than that records are missing, the log goes on behind them, and the loss stays a problem for
    whoever verifies the log or starts a server on it.
    """
    found = _inspect(store, notary)
    if isinstance(found, Damage):
        found = _inspect(store, notary)  # another process may have ended old records meanwhile
    if isinstance(found, Damage):
        if is_gone and (loss := _find_loss(store, notary, found)) is not None:
            return _bear(store, notary, found, loss)
        if not accept_gap:
            raise BrokenError(found.words, found.good.seq + 1)
        found = _accept(store, notary, found)
    if store.cut_bytes:
        found.notes.append(notary.stamp_entry({"kind": "recovered", "cut_bytes": store.cut_bytes}))
    return found


def _inspect(store: Store, notary: Notary) -> Recovered | Damage:
    try:
        is_new = store.head() == NO_RECORD
    except BrokenError:
        is_new = False  # said better below, with the place where it begins
    newest, are_ours = notary.newest(is_new=is_new)
    if newest is None or not are_ours:
        words = NO_CHECKPOINT if newest is None and are_ours else FOREIGN
        return Damage(words, _proven(newest), _last(store, newest), are_seals_good=False)
    head = Head(newest.seq, newest.hash.encode())
    lines = store.lines(newest.seq - 1 if newest.kind == "checkpoint" else newest.seq)
    if newest.kind == "checkpoint" and newest.seq:
        line = next(lines, None)
        if line is None:
            words = f"it ends before record {newest.seq}, which a checkpoint has seen"
            return Damage(words, _before(store, newest), head)
        if head_of(line) != head:
            words = f"record {newest.seq} is not the one that a checkpoint has seen"
            return Damage(words, _before(store, newest), _last(store, newest))
    behind = 0
    for line in lines:
        if not follows(line, head):
            words = f"what follows record {head.seq} is not what was written"
            last = _last(store, newest)
            # The number of what is broken is not given again, whether or not it can be read.
            return Damage(words, head, last._replace(seq=max(last.seq, head.seq + 1)))
        head = Head(head.seq + 1, line[-66:-2])
        behind += 1
    return _look_back(store, notary, newest) or Recovered([], behind)


def _look_back(store: Store, notary: Notary, newest: Checkpoint) -> Damage | None:
    """What was changed before the newest checkpoint, where that is soon found."""
    if newest.seq - (store.first_seq() or 1) >= WHOLE_RECORDS:
        return None
    seals = notary.seals()
    verdict = Walk(Seals(seals), seals, is_keyed=True).judge(store.lines(0), 0, None)
    found = next((problem for problem in verdict.problems if not problem.is_accepted), None)
    if found is None:
        return None
    before = (each for each in seals if each.kind == "checkpoint" and each.seq < found.seq)
    good = max(before, key=lambda each: each.seq, default=None)
    return Damage(found.words, _proven(good), _last(store, newest))


def _proven(newest: Checkpoint | None) -> Head:
    return NO_RECORD if newest is None else Head(newest.seq, newest.hash.encode())


def _before(store: Store, newest: Checkpoint) -> Head:
    """The last record before the one that a checkpoint has seen. How far it is proven, a full check says."""
    heads = (head for line in store.lines(0) if (head := head_of(line)) is not None)
    return max((head for head in heads if head.seq < newest.seq), default=NO_RECORD)


def _last(store: Store, newest: Checkpoint | None) -> Head:
    """Behind what the log can go on: behind every number that was ever given."""
    last = _proven(newest)
    for line in store.lines(last.seq):
        head = head_of(line)
        if head is not None and head.seq > last.seq:
            last = head
    return last._replace(seq=max(last.seq, store.taken_seq()))


def _find_loss(store: Store, notary: Notary, damage: Damage) -> str | None:
    """Which records are missing; None where something else is wrong, too."""
    if not damage.are_seals_good:
        return None
    seals = notary.seals()
    verdict = Walk(Seals(seals), seals, is_keyed=True).judge(store.lines(0), 0, None)
    problems = [problem for problem in verdict.problems if not problem.is_accepted]
    if any(problem.kind not in ("missing", "truncated") for problem in problems):
        return None
    return problems[0].words if problems else damage.words


def _bear(store: Store, notary: Notary, damage: Damage, loss: str) -> Recovered:
    """Go on behind records that are missing, and have that on the record."""
    count = sum(1 for _ in store.lines(0))
    note = notary.stamp_entry({"kind": "recovered", "missing": loss, "good": damage.good.seq})
    _append_behind(store, damage.last, note)
    notary.bear(loss, damage.last, count=count, good=damage.good)
    return Recovered([], 1)


def _accept(store: Store, notary: Notary, damage: Damage) -> Recovered:
    """Go on behind the damage, and have it on the record that somebody wanted that."""
    count = sum(1 for _ in store.lines(0))
    notary.certify("accepted", damage.last, count=count, good=damage.good)
    note = notary.stamp_entry({"kind": "recovered", "accepted": damage.words, "good": damage.good.seq})
    _append_behind(store, damage.last, note)
    return Recovered([], 1)


def _append_behind(store: Store, last: Head, note: Entry) -> None:
    """At once, and behind the number that was decided on: others look for the last record to go on from."""

    def lines(_: Head) -> list[bytes]:
        if any(head_of(line) is not None for line in store.lines(last.seq)):
            raise StoreError("another process has gone on with the log just now")
        return compose(last, [note])[1]

    store.append(lines, last)

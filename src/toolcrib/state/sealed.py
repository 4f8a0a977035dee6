"""Encryption of what a shared engine stores and carries: values, the texts of tasks, and notices.

A database that many machines reach, its backups and its write-ahead log are read by more people than a file
of one server. `SealedValues` and `SealedTasks` stand in front of an engine and encrypt with AES-256-GCM. The
place of a value is authenticated, so that no value can be moved to another key. Names, callers and times stay
readable: the engine needs them for its queries. `SealedBus` does the same for notices: some carry what a user
has answered, and nobody else may answer.

The only module that imports `cryptography`.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from toolcrib.errors import ConfigurationError
from toolcrib.state.base import (
    ChangeBus,
    Changes,
    Check,
    Item,
    KeyValue,
    NewTask,
    Space,
    Status,
    Task,
    TaskStore,
    Write,
)
from toolcrib.state.files import find_other_owner

logger = logging.getLogger("toolcrib")

FORMAT = b"\x01"
_ID_BYTES = 4
_NONCE_BYTES = 12
OVERHEAD = len(FORMAT) + _ID_BYTES + _NONCE_BYTES + 16
"""Bytes that sealing adds to a value."""
MAX_FILE_BYTES = 64 * 1024
_SECRET = re.compile(r"[A-Za-z0-9_=+/-]{43,}")
_MAKE = "python -c 'import secrets; print(secrets.token_urlsafe(32))' > {path}; chmod 600 {path}"


def read_key_file(path: Path) -> list[bytes]:
    """Return the secrets of a key file, one to a line: the first one is current, the others still open what
    they sealed. Raise ConfigurationError for a file that is missing, not private, or has a weak secret."""
    hint = "make it with " + _MAKE.format(path=path)
    try:
        facts = os.stat(path)
        text = path.read_text() if facts.st_size <= MAX_FILE_BYTES else ""
    except FileNotFoundError:
        raise ConfigurationError(f"the key file {path} does not exist", key="fleet.key_file", hint=hint)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the key file {path}: {error}", key="fleet.key_file")
    problem = None
    if (owner := find_other_owner(facts)) is not None:
        problem = f"belongs to another user ({owner})"
    elif facts.st_mode & (stat.S_IWGRP | stat.S_IRWXO) and os.name != "nt":
        problem, hint = "can be read or written by other users", f"chmod 600 {path}"
    secrets = [line.strip() for line in text.splitlines() if line.strip()]
    if not secrets:
        problem = "has no secret"
    for number, secret in enumerate(secrets, 1):
        if not _SECRET.fullmatch(secret):
            problem = f"line {number}: a secret has at least 43 characters A-Z a-z 0-9 - _ + / ="
    if problem:
        raise ConfigurationError(f"the key file {path} {problem}", key="fleet.key_file", hint=hint)
    return [secret.encode() for secret in secrets]


def derive_key(secret: bytes, purpose: str) -> bytes:
    """Return the key of 32 bytes that a secret gives for one purpose. A secret has 256 random bits, so one
    keyed hash is enough."""
    return hashlib.blake2b(purpose.encode(), key=hashlib.sha256(secret).digest(), digest_size=32).digest()


class Sealer:
    """Encrypts with the first of several secrets, and decrypts with any of them."""

    def __init__(self, secrets: Sequence[bytes], purpose: str) -> None:
        keys = [derive_key(secret, purpose) for secret in secrets]
        self._current = hashlib.sha256(keys[0]).digest()[:_ID_BYTES]
        self._ciphers = {hashlib.sha256(key).digest()[:_ID_BYTES]: AESGCM(key) for key in reversed(keys)}

    def seal(self, value: bytes, place: str) -> bytes:
        """Return a value encrypted for one place."""
        nonce = os.urandom(_NONCE_BYTES)
        cipher = self._ciphers[self._current]
        return FORMAT + self._current + nonce + cipher.encrypt(nonce, value, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes | None:
        """Return the value; None if it was sealed by an unknown secret, in another format or for another
        place, or was changed."""
        start = len(FORMAT) + _ID_BYTES
        cipher = self._ciphers.get(sealed[len(FORMAT) : start])
        if cipher is None or not sealed.startswith(FORMAT) or len(sealed) < OVERHEAD:
            return None
        try:
            nonce, rest = sealed[start : start + _NONCE_BYTES], sealed[start + _NONCE_BYTES :]
            return cipher.decrypt(nonce, rest, place.encode())
        except InvalidTag:
            return None


class SealedValues:
    """KeyValue that encrypts its values. Keys of a space are hashes or ids, and stay as they are."""

    def __init__(self, values: KeyValue, sealer: Sealer) -> None:
        self._values = values
        self._sealer = sealer

    async def get(self, space: Space, key: str) -> Item | None:
        item = await self._values.get(_roomier(space), key)
        return None if item is None else self._open(space, key, item)

    async def commit(self, writes: Sequence[Write], checks: Sequence[Check] = ()) -> bool:
        return await self._values.commit(
            [write._replace(space=_roomier(write.space), value=self._seal(write)) for write in writes],
            [check._replace(space=_roomier(check.space)) for check in checks],
        )

    async def scan(
        self, space: Space, *, owner: str = "", after: str = "", limit: int = 100
    ) -> Sequence[tuple[str, Item]]:
        found = await self._values.scan(_roomier(space), owner=owner, after=after, limit=limit)
        opened = [(key, self._open(space, key, item)) for key, item in found]
        return [(key, item) for key, item in opened if item is not None]

    def _seal(self, write: Write) -> bytes | None:
        # A mark has no value: there is nothing to hide, and it must stay within a cap of no bytes.
        return write.value and self._sealer.seal(write.value, _place(write.space, write.key))

    def _open(self, space: Space, key: str, item: Item) -> Item | None:
        if not item.value:
            return item
        value = self._sealer.open(item.value, _place(space, key))
        return None if value is None else Item(value, item.version)


def _roomier(space: Space) -> Space:
    """Return a space whose cap of a value leaves room for sealing it."""
    return space._replace(max_value=space.max_value + OVERHEAD) if space.max_value else space


def _place(space: Space, key: str) -> str:
    return f"{space.name}\0{key}"


class SealedBus:
    """ChangeBus that encrypts its notices for their topic. Others are not delivered."""

    def __init__(self, bus: ChangeBus, sealer: Sealer) -> None:
        self._bus = bus
        self._sealer = sealer

    def publish(self, topic: str, data: bytes = b"") -> None:
        self._bus.publish(topic, self._sealer.seal(data, topic))

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        def receive(sealed: bytes | None) -> None:
            data = None if sealed is None else self._sealer.open(sealed, topic)
            if data is not None or sealed is None:
                changed(data)
            else:
                logger.warning("a notice on '%s' was dropped: it is not of this fleet", topic)

        return self._bus.subscribe(topic, receive)

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:
        return await self._bus.send(process, self._sealer.seal(data, process), timeout_s)


class SealedTasks:
    """TaskStore that encrypts what callers sent and get: payloads, messages, questions, answers and results.

    What the engine itself writes, such as the result of a task whose process has died, is not sealed.
    """

    def __init__(self, tasks: TaskStore, sealer: Sealer) -> None:
        self._tasks = tasks
        self._sealer = sealer

    async def create(
        self, task: NewTask, *, queue: str | None, most: int, most_own: int | None
    ) -> Task | None:
        payload = None if task.payload is None else self._seal(task.payload, task.id, "payload")
        sealed = task._replace(payload=payload)
        created = await self._tasks.create(sealed, queue=queue, most=most, most_own=most_own)
        return created and self._open_task(created)

    async def claim(self, queues: Collection[str]) -> Task | None:
        claimed = await self._tasks.claim(queues)
        return claimed and self._open_task(claimed)

    async def find(self, id_: str, binding: str) -> Task | None:
        found = await self._tasks.find(id_, binding)
        return found and self._open_task(found)

    async def note(self, id_: str, message: str) -> bool:
        sealed = base64.b64encode(self._seal(message.encode("utf-8", "surrogatepass"), id_, "message"))
        return await self._tasks.note(id_, sealed.decode())

    async def ask(self, id_: str, questions: Mapping[str, bytes]) -> bool:
        return await self._tasks.ask(id_, self._seal_all(questions, id_, "question"))

    async def withdraw(self, id_: str, keys: Collection[str]) -> None:
        await self._tasks.withdraw(id_, keys)

    async def answer(self, id_: str, binding: str, answers: Mapping[str, bytes]) -> None:
        await self._tasks.answer(id_, binding, self._seal_all(answers, id_, "answer"))

    async def finish(self, id_: str, status: Status, outcome: bytes | None, *, max_kept_bytes: int) -> bool:
        sealed = None if outcome is None else self._seal(outcome, id_, "outcome")
        return await self._tasks.finish(id_, status, sealed, max_kept_bytes=max_kept_bytes)

    async def cancel(self, id_: str, binding: str) -> bool:
        return await self._tasks.cancel(id_, binding)

    async def drop(self, id_: str) -> None:
        await self._tasks.drop(id_)

    async def renew(self) -> None:
        await self._tasks.renew()

    async def leave(self) -> None:
        await self._tasks.leave()

    async def changes(self, after: int, watched: Collection[str]) -> Changes:
        changed = await self._tasks.changes(after, watched)
        answers = {id_: self._open_all(each, id_, "answer") for id_, each in changed.answers.items()}
        return changed._replace(answers=answers, seen=[self._open_task(task) for task in changed.seen])

    def _open_task(self, task: Task) -> Task:
        id_, message = task.new.id, task.message
        if message is not None:
            try:
                opened = self._open(base64.b64decode(message, validate=True), id_, "message")
            except ValueError:  # written by the engine
                opened = None
            message = message if opened is None else opened.decode("utf-8", "surrogatepass")
        return task._replace(
            new=task.new._replace(payload=self._open(task.new.payload, id_, "payload")),
            message=message,
            outcome=self._open(task.outcome, id_, "outcome"),
            questions=self._open_all(task.questions, id_, "question"),
        )

    def _seal(self, value: bytes, id_: str, part: str) -> bytes:
        return self._sealer.seal(value, f"task\0{id_}\0{part}")

    def _open(self, value: bytes | None, id_: str, part: str) -> bytes | None:
        if value is None or not value.startswith(FORMAT):  # JSON that the engine wrote
            return value
        return self._sealer.open(value, f"task\0{id_}\0{part}")

    def _seal_all(self, values: Mapping[str, bytes], id_: str, part: str) -> dict[str, bytes]:
        return {key: self._seal(value, id_, f"{part}\0{key}") for key, value in values.items()}

    def _open_all(self, values: Mapping[str, bytes], id_: str, part: str) -> dict[str, bytes]:
        opened = {key: self._open(value, id_, f"{part}\0{key}") for key, value in values.items()}
        return {key: value for key, value in opened.items() if value is not None}

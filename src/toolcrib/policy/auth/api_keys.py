"""The keys of a running server: read once, and again whenever the file changes.

A file that becomes unreadable while the server runs is no reason to lock everybody out at once, and no way
to keep a revoked key alive: the keys read last hold for a minute, then nobody gets in by key until the file
can be read again. Knows a file and a clock; refuses to know requests.

What an API key looks like: `tck_`, 256 random bits, and six characters that tell whether it is whole.

The prefix lets scanners find a key that was left somewhere, the checksum lets them be sure of it. Knows the
shape of keys; refuses to know which ones are good.

The file of API keys: who has one, what it is good for, until when. Never the keys themselves.

Written whole under a lock, so that several commands at a time, a crash or a full disk leave the old file or
the new one. What it holds is read strictly: a field that is misspelt must not become a key that never
expires. Knows the file; refuses to know requests and what scopes and roles allow.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn

from toolcrib.config.atomic_file import PRIVATE, find_other_owner, write_file
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError

PREFIX = "tck_"
_SHAPE = re.compile(r"tck_([A-Za-z0-9_-]{43})([0-9A-Za-z]{6})")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def make_secret() -> str:
    body = secrets.token_urlsafe(32)
    return f"{PREFIX}{body}{_sum(body)}"


def is_whole(text: str) -> bool:
    """Whether this is all of a key, with no character changed; it may still be nobody's."""
    found = _SHAPE.fullmatch(text)
    return found is not None and found[2] == _sum(found[1])


def hash_secret(text: str) -> str:
    """What is kept of a key. It has as many random bits as the hash, so there is nothing to slow down."""
    return hashlib.sha256(text.encode()).hexdigest()


def _sum(body: str) -> str:
    """CRC-32 of prefix and body in base 62, six digits."""
    number, digits = zlib.crc32((PREFIX + body).encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits


try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such locks: there, one command at a time
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
MAX_BYTES = 16 * 1024 * 1024
LOCK_S = 10.0
SHOWN = len(PREFIX) + 4
"""So many characters of a key are kept, for people to tell keys apart."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-z]{4,32}")
_FIELDS = ("id", "name", "hash", "prefix", "scopes", "roles", "created", "expires", "revoked")

State = Literal["active", "expired", "revoked"]
Stamp = tuple[int, int, int, int, int]
"""What tells one state of a file from another without reading it."""


class BadKeyError(ValueError):
    """A key that cannot be made like that, in words for whoever wanted it."""


class NameTakenError(BadKeyError):
    """An active key has that name."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, as the file has it. Times are seconds since 1970; no `expires`, never."""

    id: str
    name: str
    hash: str
    prefix: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    created: float
    expires: float | None = None
    revoked: float | None = None

    def state(self, wall_s: float) -> State:
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or wall_s < self.expires else "expired"

    @property
    def principal(self) -> Principal:
        """Bound to the key and not only to its name, which another may have next year."""
        return Principal(
            f"key:{self.name}", frozenset(self.scopes), frozenset(self.roles), f"key:{self.name}:{self.id}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the hash."""
        return {
            "id": self.id,
            "name": self.name,
            "prefix": self.prefix,
            "scopes": list(self.scopes),
            "roles": list(self.roles),
            "created": spell_time(self.created),
            "expires": None if self.expires is None else spell_time(self.expires),
            "revoked": None if self.revoked is None else spell_time(self.revoked),
        }


class KeyFile:
    """The keys in one file. Whatever is wrong with it is a ConfigurationError that says how to mend it."""

    def __init__(
        self, path: Path | str, *, wall: Callable[[], float] = time.time, lock_s: float = LOCK_S
    ) -> None:
        self.path = Path(path)
        self._wall = wall
        self._lock_s = lock_s

    # --- reading ---

    def entries(self) -> tuple[Key, ...]:
        return self.read()[0]

    def find(self, secret: str, wall_s: float) -> Principal | None:
        """Whose key this is; None where it is nobody's, revoked or expired."""
        hashed = hash_secret(secret)
        for key in self.entries():
            if key.hash == hashed and key.state(wall_s) == "active":
                return key.principal
        return None

    def read(self) -> tuple[tuple[Key, ...], Stamp]:
        """The keys, and the state of the file that they are from."""
        try:
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with open(os.open(self.path, flags), "rb", buffering=0) as file:
                facts = os.fstat(file.fileno())
                self._check(facts)
                data = file.readall()
        except FileNotFoundError:
            self._refuse("there is no such file", f"make a key: toolcrib keys create NAME --file {self.path}")
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}")
        return self._parse(data), _stamp(facts)

    def stamp(self) -> Stamp:
        """The state of the file now. Raises OSError."""
        return _stamp(os.stat(self.path))

    def _check(self, facts: os.stat_result) -> None:
        if not stat.S_ISREG(facts.st_mode):
            self._refuse("is not a file of keys", "name a plain file")
        if facts.st_size > MAX_BYTES:
            self._refuse(f"is larger than {MAX_BYTES >> 20} MiB", "name the file that `toolcrib keys` keeps")
        if (owner := find_other_owner(facts)) is not None:
            # They can change it as they like: what it says of keys is theirs to say.
            hint = f"run this as that user, or take the file over: chown {_user()} {self.path}"
            self._refuse(f"belongs to another user ({owner})", hint)
        if facts.st_mode & 0o077 and os.name != "nt":
            self._refuse("can be read or written by others than its owner", f"chmod 600 {self.path}")

    def _parse(self, data: bytes) -> tuple[Key, ...]:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            self._refuse("is not JSON", "put a copy of it back, or make keys in a new file")
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            self._refuse("is not a file of keys", "name the file that `toolcrib keys` keeps")
        if document.get("format") != FORMAT:
            self._refuse("was written by another version of toolcrib", "use that one, or make keys anew")
        keys = tuple(self._read_key(item, number) for number, item in enumerate(document["keys"], start=1))
        for field in ("id", "hash"):
            seen = [getattr(key, field) for key in keys]
            if len(set(seen)) < len(seen):
                self._refuse(f"has two keys of one {field}", "take one of them out")
        return keys

    def _read_key(self, item: Any, number: int) -> Key:
        if not isinstance(item, dict) or sorted(item) != sorted(_FIELDS):
            self._refuse(f"key {number} must have exactly {', '.join(_FIELDS)}")
        try:
            return Key(
                _matching(_ID, item["id"]),
                check_name(item["name"]),
                _matching(_HASH, item["hash"]),
                _matching(re.compile(r".{0,16}"), item["prefix"]),
                tuple(_matching(SCOPE, scope) for scope in _list(item["scopes"])),
                tuple(_matching(SCOPE, role) for role in _list(item["roles"])),
                _read_time(item["created"]),
                None if item["expires"] is None else _read_time(item["expires"]),
                None if item["revoked"] is None else _read_time(item["revoked"]),
            )
        except ValueError as error:
            self._refuse(f"key {number}: {error}")

    # --- changing ---

    def create(
        self,
        name: str,
        scopes: Sequence[str] = (),
        roles: Sequence[str] = (),
        expires: float | None = None,
    ) -> tuple[str, Key]:
        """A new key: its secret, which is kept nowhere, and what is kept. Makes the file where there is
        none. Raises BadKeyError for a name, scope or role that cannot be one, and for a name that is taken.
        """
        check_name(name)
        for word in (*scopes, *roles):
            if not SCOPE.fullmatch(word):
                raise BadKeyError(f"{word!r} cannot be a scope or a role: no blanks, quotes or backslashes")
        with self._held():
            keys = self.entries() if self._is_there() else ()
            now_s = float(int(self._wall()))
            if any(key.name == name and key.state(now_s) == "active" for key in keys):
                raise NameTakenError(f"there is an active key {name!r} already")
            secret = make_secret()
            key = Key(
                _make_id(keys),
                name,
                hash_secret(secret),
                secret[:SHOWN],
                tuple(dict.fromkeys(scopes)),
                tuple(dict.fromkeys(roles)),
                now_s,
                expires,
            )
            self._write((*keys, key))
        return secret, key

    def revoke(self, word: str) -> tuple[Key, ...]:
        """End the key of this name, id or secret. Gives those that this ended: none where it was ended
        before. Raises LookupError where there is no such key."""
        hashed = hash_secret(word)
        with self._held():
            keys = self.entries()
            meant = [key for key in keys if word == key.name or hashed == key.hash]
            meant = meant or [key for key in keys if word == key.id]
            if not meant:
                raise LookupError(word)
            now_s = float(int(self._wall()))
            # All of the name: of those that have expired, a clock set back would make good ones.
            ended = {key.id: replace(key, revoked=now_s) for key in meant if key.revoked is None}
            if ended:
                self._write(tuple(ended.get(key.id, key) for key in keys))
        return tuple(ended.values())

    def _is_there(self) -> bool:
        try:
            os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # reading it says why; it must not be taken for a new one
        return True

    def _write(self, keys: tuple[Key, ...]) -> None:
        entries = [{**key.to_json(), "hash": key.hash} for key in keys]
        ordered = [{field: entry[field] for field in _FIELDS} for entry in entries]
        text = json.dumps({"format": FORMAT, "keys": ordered}, indent=2) + "\n"
        real = Path(os.path.realpath(self.path))  # a link stays, and what it leads to is replaced
        try:
            write_file(real, text.encode(), mode=PRIVATE)
        except OSError as error:
            self._refuse(f"cannot be written: {error.strerror}")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Nobody else changes the file meanwhile."""
        real = Path(os.path.realpath(self.path))
        with suppress(OSError):  # no such file yet; whatever else it is, reading or writing says so
            self._check(os.stat(real))  # before anything is created beside a file of somebody else
        descriptor = self._open_lock(real.with_name(f".{real.name}.lock"))
        try:
            self._wait(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self, lock: Path) -> int:
        """Whoever may create files in the folder may have put anything in the place of the lock."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        hint = "remove it, and let nobody else create files in that folder"
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, flags, PRIVATE)
        except OSError as error:
            if lock.is_symlink():
                self._refuse(f"its lock {lock} is a symbolic link", hint)
            if lock.is_dir():
                self._refuse(f"its lock {lock} is a folder", hint)
            self._refuse(f"cannot be written: {error.strerror}")
        facts = os.fstat(descriptor)
        owner = find_other_owner(facts)
        if owner is not None or not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            problem = "is not a regular file" if owner is None else f"belongs to another user ({owner})"
            self._refuse(f"its lock {lock} {problem}", hint)
        return descriptor

    def _wait(self, descriptor: int) -> None:
        if fcntl is None:
            return
        until_s = time.monotonic() + self._lock_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    self._refuse("is being changed by another command", "run it again when that is done")
                time.sleep(0.01)

    def _refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        raise ConfigurationError(problem, file=str(self.path), hint=hint) from None


# --- words and times ---------------------------------------------------------------------------------


def check_name(name: Any) -> str:
    """Raises BadKeyError for what cannot be the name of a key."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadKeyError(f"{name!r} cannot be a key's name: 1 to 64 letters, digits, dots, - and _")
    if name.startswith(PREFIX):
        raise BadKeyError(f"a key's name cannot begin with {PREFIX}, as keys themselves do")
    return name


def spell_time(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_time(text: Any) -> float:
    """Raises ValueError."""
    moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not a time with a zone")
    return moment.timestamp()


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not what belongs there")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return value


def _make_id(keys: Sequence[Key]) -> str:
    taken = {key.id for key in keys} | {key.name for key in keys}
    while (made := secrets.token_hex(4)) in taken:
        pass
    return made


def _user() -> str:
    return "root" if os.geteuid() == 0 else str(os.geteuid())


def _stamp(facts: os.stat_result) -> Stamp:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


logger = logging.getLogger("toolcrib")

PATIENCE_S = 60.0


class WatchedKeys:
    """`is_open` says that keys can be told good from bad at all."""

    def __init__(self, file: KeyFile, *, now: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._now = now
        self._keys: dict[str, tuple[Key, Principal]] = {}
        self._stamp: Stamp | None = None
        self._is_settled = False
        self._broken_since_s: float | None = None
        self.is_open = False

    def __len__(self) -> int:
        return len(self._keys)

    def load(self) -> None:
        """Raises ConfigurationError."""
        self._take(*self._file.read())

    def look(self) -> bool:
        """See to it that the keys are those of the file. True where anything may be different now."""
        try:
            stamp = self._find_stamp()
            if stamp == self._stamp and self._is_settled and self._broken_since_s is None:
                return False
            # A file that changed twice within one tick of its clock looks unchanged: read it once more later.
            is_settled = stamp == self._stamp
            self._take(*self._file.read())
            self._is_settled = is_settled
            return True
        except ConfigurationError as error:
            return self._bear(error)

    def find(self, secret: str) -> tuple[Key, Principal] | None:
        """The key, whatever its state."""
        return self._keys.get(hash_secret(secret))

    def is_active(self, hashed: str, wall_s: float) -> bool:
        """Whether the key of this hash is good at that time."""
        found = self._keys.get(hashed)
        return found is not None and found[0].state(wall_s) == "active"

    def _find_stamp(self) -> Stamp | None:
        try:
            return self._file.stamp()
        except OSError:
            return None  # reading it says why

    def _take(self, keys: tuple[Key, ...], stamp: Stamp) -> None:
        if self._broken_since_s is not None:
            logger.warning("the keys in %s can be read again", self._file.path)
        known = {principal: principal for _, principal in self._keys.values()}
        # The same object where it is the same caller: it is looked up with every call.
        self._keys = {key.hash: (key, known.get(key.principal, key.principal)) for key in keys}
        self._stamp, self._is_settled = stamp, False
        self._broken_since_s = None
        self.is_open = True

    def _bear(self, error: ConfigurationError) -> bool:
        now_s = self._now()
        if self._broken_since_s is None:
            self._broken_since_s = now_s
            held = f"those read before hold for {PATIENCE_S:g} s" if self.is_open else "no key is good"
            logger.error("keys cannot be read: %s; %s", error, held)
        if not self.is_open or now_s - self._broken_since_s < PATIENCE_S:
            return False
        self.is_open = False
        self._keys = {}
        logger.error("keys still cannot be read: %s; from now on no key is good", error)
        return True

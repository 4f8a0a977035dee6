"""API keys: their form, the file that holds their hashes, and the keys of a running server.

A key is `tck_`, 256 random bits, and a checksum of six characters. The prefix lets scanners find a key that
was left somewhere, the checksum lets them be sure.

`KeyFile` is the engine of KeyStore for one machine. Its file is replaced atomically under a lock, and read
strictly: a misspelt field must not become a key that never expires.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn

from toolcrib.config.atomic_file import PRIVATE, write_file
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import Key, KeyStore, StateUnavailable
from toolcrib.state.files import find_other_owner

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such locks: one command at a time
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("toolcrib")

PREFIX = "tck_"
FORMAT = 1
MAX_BYTES = 16 * 1024 * 1024
LOCK_S = 10.0
GRACE_S = 60.0
"""How long the last keys hold when the file becomes unreadable."""
SHOWN = len(PREFIX) + 4
"""Characters of a key that are kept, for people to tell keys apart."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_KEY = re.compile(r"tck_([A-Za-z0-9_-]{43})([0-9A-Za-z]{6})")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

State = Literal["active", "expired", "revoked"]


class InvalidKeyError(ValueError):
    """A key that cannot be created with these values."""


class NameTakenError(InvalidKeyError):
    """An active key has that name."""


def make_secret() -> str:
    body = secrets.token_urlsafe(32)
    return f"{PREFIX}{body}{_checksum(body)}"


def is_complete_key(text: str) -> bool:
    """Whether this is a complete key with a correct checksum; it may still be unknown."""
    found = _KEY.fullmatch(text)
    return found is not None and found[2] == _checksum(found[1])


def hash_secret(text: str) -> str:
    """Return what is kept of a key. A fast hash is enough, because a key has as many random bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    """Return the CRC-32 of prefix and body in base 62."""
    number, digits = zlib.crc32((PREFIX + body).encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits


def state_of(key: Key, wall_s: float) -> State:
    if key.revoked_ms is not None:
        return "revoked"
    return "active" if key.expires_ms is None or wall_s * 1000 < key.expires_ms else "expired"


def principal_of(key: Key) -> Principal:
    """Return the principal, bound to the key and not only to its name, which may be given to another key."""
    name = f"key:{key.name}"
    return Principal(name, frozenset(key.scopes), frozenset(key.roles), f"{name}:{key.id}")


def to_json(key: Key) -> dict[str, Any]:
    """Return everything but the hash."""
    return {name: write(getattr(key, field)) for name, (field, _, write) in _FIELDS.items() if name != "hash"}


async def create_key(
    store: KeyStore,
    name: str,
    scopes: Sequence[str] = (),
    roles: Sequence[str] = (),
    expires: float | None = None,
    *,
    wall: Callable[[], float] = time.time,
) -> tuple[str, Key]:
    """Create a key. Returns the secret, which is stored nowhere, and the key.

    Raises InvalidKeyError for a bad name, scope or role, and for a name that is taken.
    """
    check_name(name)
    for word in (*scopes, *roles):
        if not SCOPE.fullmatch(word):
            raise InvalidKeyError(f"invalid scope or role {word!r}: no spaces, quotes or backslashes")
    secret = make_secret()
    key = Key(
        secrets.token_hex(4),
        name,
        hash_secret(secret),
        secret[:SHOWN],
        tuple(dict.fromkeys(scopes)),
        tuple(dict.fromkeys(roles)),
        int(wall()) * 1000,
        None if expires is None else int(expires) * 1000,
        None,
    )
    if not await store.add(key):
        raise NameTakenError(f"an active key {name!r} exists already")
    return secret, key


class KeyFile:
    """KeyStore in one file. Raises ConfigurationError for everything that is wrong with the file."""

    def __init__(
        self, path: Path | str, *, wall: Callable[[], float] = time.time, lock_s: float = LOCK_S
    ) -> None:
        self.path = Path(path)
        self._wall = wall
        self._lock_s = lock_s
        self._settled = 0
        """The version that was read twice: a file that changed twice within one tick of its clock looks as if
        it had changed once."""

    async def read(self, known: int = 0) -> tuple[int, Sequence[Key]] | None:
        if known and known == self._settled == self._find_version():
            return None
        version, keys = self._read()
        self._settled = version if version == known else 0
        return version, keys

    async def add(self, key: Key) -> bool:
        with self._locked():
            keys = self._read()[1] if self._exists() else ()
            if any(each.name == key.name and state_of(each, self._wall()) == "active" for each in keys):
                return False
            self._write((*keys, key))
        return True

    async def revoke(self, word: str) -> tuple[int, Sequence[Key]]:
        with self._locked():
            version, keys = self._read()
            valid = [key for key in keys if key.revoked_ms is None]
            # All with this name: a clock set back would make expired ones valid again.
            found = [key for key in valid if word in (key.name, key.hash)]
            found = found or [key for key in valid if key.id == word]
            now_ms = int(self._wall()) * 1000
            revoked = {key.id: key._replace(revoked_ms=now_ms) for key in found}
            if revoked:
                self._write(tuple(revoked.get(key.id, key) for key in keys))
                version = self._find_version()
        return version, tuple(revoked.values())

    # --- reading ---

    def _read(self) -> tuple[int, tuple[Key, ...]]:
        try:
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            with open(os.open(self.path, flags), "rb", buffering=0) as file:
                facts = os.fstat(file.fileno())
                self._check(facts)
                data = file.readall()
        except FileNotFoundError:
            self._refuse("no such file", f"create a key: toolcrib keys create NAME --file {self.path}")
        except OSError as error:
            self._refuse(f"cannot be read: {error.strerror}")
        return _version_of(facts), self._parse(data)

    def _find_version(self) -> int:
        try:
            return _version_of(os.stat(self.path))
        except OSError:
            return 0  # reading it reports the problem

    def _check(self, facts: os.stat_result) -> None:
        if not stat.S_ISREG(facts.st_mode):
            self._refuse("not a regular file", "name the file that `toolcrib keys` created")
        if facts.st_size > MAX_BYTES:
            self._refuse(f"larger than {MAX_BYTES >> 20} MiB", "name the file that `toolcrib keys` created")
        if (owner := find_other_owner(facts)) is not None:  # who could put any key into it
            user = "root" if os.geteuid() == 0 else str(os.geteuid())
            hint = f"run this as that user, or take the file over: chown {user} {self.path}"
            self._refuse(f"belongs to another user ({owner})", hint)
        if facts.st_mode & 0o077 and os.name != "nt":
            self._refuse("accessible to other users", f"chmod 600 {self.path}")

    def _parse(self, data: bytes) -> tuple[Key, ...]:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            self._refuse("not JSON", "restore a copy, or create keys in a new file")
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            self._refuse("not a keys file", "name the file that `toolcrib keys` created")
        if document.get("format") != FORMAT:
            self._refuse("written by another version of toolcrib", "use that version, or create new keys")
        keys = tuple(self._parse_key(item, number) for number, item in enumerate(document["keys"], start=1))
        for field in ("id", "hash"):
            values = [getattr(key, field) for key in keys]
            if len(set(values)) < len(values):
                self._refuse(f"two keys have the same {field}", "remove one of them")
        return keys

    def _parse_key(self, item: Any, number: int) -> Key:
        if not isinstance(item, dict) or sorted(item) != sorted(_FIELDS):
            self._refuse(f"key {number} must have exactly {', '.join(_FIELDS)}")
        try:
            return Key(**{field: parse(item[name]) for name, (field, parse, _) in _FIELDS.items()})
        except ValueError as error:
            self._refuse(f"key {number}: {error}")

    # --- changing ---

    def _exists(self) -> bool:
        """Whether there is a file. In doubt there is: one that cannot be read must not be replaced."""
        try:
            os.stat(self.path)
        except OSError as error:
            return not isinstance(error, FileNotFoundError)
        return True

    def _write(self, keys: tuple[Key, ...]) -> None:
        entries = [{**to_json(key), "hash": key.hash} for key in keys]
        text = json.dumps({"format": FORMAT, "keys": entries}, indent=2) + "\n"
        real = Path(os.path.realpath(self.path))  # a link is kept, and its target replaced
        try:
            write_file(real, text.encode(), mode=PRIVATE)
        except OSError as error:
            self._refuse(f"cannot be written: {error.strerror}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        real = Path(os.path.realpath(self.path))
        with suppress(OSError):  # a missing file; reading or writing reports anything else
            self._check(os.stat(real))  # before anything is created beside another user's file
        lock = real.with_name(f".{real.name}.lock")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        # Another user who may create files in the folder may have put anything there.
        hint = "remove it, and let nobody else create files in that folder"
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, flags, PRIVATE)
        except OSError as error:
            if os.path.lexists(lock):
                is_link = lock.is_symlink()
                problem = "is a symbolic link" if is_link else f"cannot be opened: {error.strerror}"
                self._refuse(f"its lock {lock} {problem}", hint)
            self._refuse(f"cannot be written: {error.strerror}")
        try:
            owner = find_other_owner(facts := os.fstat(descriptor))
            if owner is not None or not stat.S_ISREG(facts.st_mode):
                problem = "is not a regular file" if owner is None else f"belongs to another user ({owner})"
                self._refuse(f"its lock {lock} {problem}", hint)
            self._wait_for_lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for_lock(self, descriptor: int) -> None:
        if fcntl is None:
            return
        until_s = time.monotonic() + self._lock_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= until_s:
                    self._refuse("being changed by another command", "run this again when it has finished")
                time.sleep(0.01)

    def _refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        raise ConfigurationError(problem, file=str(self.path), hint=hint) from None


def check_name(name: Any) -> str:
    """Return a valid name of a key, or raise InvalidKeyError."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidKeyError(f"invalid key name {name!r}: use 1 to 64 letters, digits, dots, - and _")
    if name.startswith(PREFIX):
        raise InvalidKeyError(f"a key name cannot start with {PREFIX}, as keys themselves do")
    return name


def _parse_time(text: Any) -> int:
    """Return milliseconds since 1970. Raises ValueError."""
    moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{text!r} is not a time with a zone")
    return round(moment.timestamp() * 1000)


def _parse_optional_time(text: Any) -> int | None:
    return None if text is None else _parse_time(text)


def _write_time(at_ms: int | None) -> str | None:
    return (
        None if at_ms is None else datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    )


def _matching(pattern: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(f"invalid value {value!r}")
        return value

    return parse


def _parse_words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list")
    return tuple(map(_matching(SCOPE.pattern), value))


_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "id": ("id", _matching("[0-9a-z]{4,32}"), str),
    "name": ("name", check_name, str),
    "hash": ("hash", _matching("[0-9a-f]{64}"), str),
    "prefix": ("prefix", _matching(".{0,16}"), str),
    "scopes": ("scopes", _parse_words, list),
    "roles": ("roles", _parse_words, list),
    "created": ("created_ms", _parse_time, _write_time),
    "expires": ("expires_ms", _parse_optional_time, _write_time),
    "revoked": ("revoked_ms", _parse_optional_time, _write_time),
}
"""The fields of a key in JSON: their name in `Key`, and how they are read and written."""


def _version_of(facts: os.stat_result) -> int:
    """Identify the content of a file without reading it."""
    return hash((facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)) or 1


class KeySnapshot:
    """The keys of a running server, read again whenever they change. `place` names where they are.

    If they become unreadable, the last keys hold for a minute; then no key is accepted until they can be read
    again. So an accident does not lock everybody out at once, and cannot keep a revoked key alive. `is_open`
    says whether keys can be checked at all.
    """

    def __init__(self, store: KeyStore, place: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._place = place
        self._now = now
        self._keys: dict[str, tuple[Key, Principal]] = {}
        self.version = 0
        self._broken_since_s: float | None = None
        self.is_open = False

    def __len__(self) -> int:
        return len(self._keys)

    async def load(self) -> None:
        """Raises ConfigurationError and StateUnavailable."""
        if (found := await self._store.read()) is not None:
            self._use(*found)

    async def refresh(self) -> bool:
        """Read the keys again if they have changed. Returns whether they may differ now."""
        try:
            found = await self._store.read(0 if self._broken_since_s is not None else self.version)
        except (ConfigurationError, StateUnavailable) as error:
            return self._handle_failure(error)
        if found is not None:
            self._use(*found)
        return found is not None

    def find(self, secret: str) -> tuple[Key, Principal] | None:
        """Return the key in whatever state."""
        return self._keys.get(hash_secret(secret))

    def is_active(self, hashed: str, wall_s: float) -> bool:
        found = self._keys.get(hashed)
        return found is not None and state_of(found[0], wall_s) == "active"

    def _use(self, version: int, keys: Sequence[Key]) -> None:
        if self._broken_since_s is not None:
            logger.warning("the keys in %s can be read again", self._place)
        known = {principal: principal for _, principal in self._keys.values()}
        principals = [principal_of(key) for key in keys]
        # The same object for the same principal: it is looked up with every call.
        pairs = [(key, known.get(each, each)) for key, each in zip(keys, principals, strict=True)]
        self._keys = {key.hash: (key, principal) for key, principal in pairs}
        self.version = version
        self._broken_since_s = None
        self.is_open = True

    def _handle_failure(self, error: Exception) -> bool:
        now_s = self._now()
        if self._broken_since_s is None:
            self._broken_since_s = now_s
            rest = f"the last keys hold for {GRACE_S:g} s" if self.is_open else "no key is accepted"
            logger.error("keys cannot be read: %s; %s", error, rest)
        if not self.is_open or now_s - self._broken_since_s < GRACE_S:
            return False
        self.is_open = False
        self._keys = {}
        logger.error("keys still cannot be read: %s; from now on no key is accepted", error)
        return True

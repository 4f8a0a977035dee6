"""The key of a log: digests of arguments and seals of checkpoints are made with it.

It comes from a file, or from the environment variable TOOLCRIB_AUDIT_KEY where no file is named; there is no
default one. Knows where keys are kept and who may read them; refuses to know what is sealed.
"""

from __future__ import annotations

import hmac
import os
import stat
from hashlib import blake2b
from pathlib import Path

from toolcrib.config.atomic_file import sync_folder
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import jsonl_store as files

VARIABLE = "TOOLCRIB_AUDIT_KEY"
MIN_BYTES = 32
_MAX_BYTES = 4096


class Secret:
    """Two keys made of one, so that a digest is never a seal."""

    __slots__ = ("_digesting", "_sealing")

    def __init__(self, master: bytes) -> None:
        inner = blake2b(master, person=b"toolcrib digest").digest()
        self._digesting = blake2b(key=inner, digest_size=16)
        self._sealing = blake2b(master, person=b"toolcrib seal").digest()

    def digest(self, data: bytes) -> str:
        """32 hex digits that say nothing of the data to whoever has no key."""
        state = self._digesting.copy()
        state.update(data)
        return state.hexdigest()

    def seal(self, data: bytes) -> bytes:
        """64 hex digits that only a holder of the key can make."""
        return hmac.digest(self._sealing, data, "sha256").hex().encode()

    def is_seal(self, data: bytes, seal: bytes) -> bool:
        return hmac.compare_digest(self.seal(data), seal)


def default_file(log: Path) -> Path:
    return log.with_name(f"{log.name}.key")


def find(log: Path, key_file: Path | None) -> Secret | None:
    """The key there is; None where there is none. Raises ConfigurationError for one that cannot be used."""
    given = os.environ.get(VARIABLE)
    if key_file is None and given is not None:
        if len(given.strip()) < MIN_BYTES:
            hint = f"give it at least {MIN_BYTES} characters that nobody can guess: openssl rand -hex 32"
            raise ConfigurationError("is too short for a key", key=VARIABLE, hint=hint)
        return Secret(given.strip().encode("utf-8", "surrogateescape"))
    path = key_file or default_file(log)
    try:
        data = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        words = f"the key cannot be read: {error.strerror}"
        raise ConfigurationError(words, file=str(path), key="audit.key_file") from None
    if len(data) < MIN_BYTES:
        hint = f"a key has at least {MIN_BYTES} bytes that nobody can guess: openssl rand -hex 32"
        raise ConfigurationError("is too short for a key", file=str(path), key="audit.key_file", hint=hint)
    return Secret(data)


def _read(path: Path) -> bytes:
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o007:
            raise ConfigurationError(
                "everybody on this machine can get at the key",
                file=str(path),
                key="audit.key_file",
                hint=f"chmod 600 {path}",
            )
        return file.read(_MAX_BYTES).strip()


def make(log: Path, key_file: Path | None) -> Secret:
    """A new key, or the one that another process has made at the same time. Raises OSError."""
    path = key_file or default_file(log)
    try:
        _make(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # not under the name of a draft
    made = find(log, path)
    if made is None:
        raise FileNotFoundError(2, "the key was removed as soon as it was made", str(path))
    return made


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    files.write_new(draft, os.urandom(32).hex().encode() + b"\n")
    try:
        os.link(draft, path)  # unlike a move, it never takes the place of a key that is there
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)

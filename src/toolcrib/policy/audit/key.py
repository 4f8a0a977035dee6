"""The key of an audit log, used for argument digests and checkpoint seals.

It is read from a file, or from the environment variable TOOLCRIB_AUDIT_KEY if no file is configured.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
from hashlib import blake2b
from pathlib import Path

from toolcrib.config.atomic_file import create_file
from toolcrib.errors import ConfigurationError

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

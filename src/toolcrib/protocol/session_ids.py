"""The id of a legacy session over HTTP, which any process that has the key can open.

    1.3f9a0c5e71d2b846.MjAyNS0xMS0yNQ...

It names the process that opened the session, and says the revision, the capabilities of the client and the
time. The signature covers these and the principal's binding, which is not in the id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from toolcrib.protocol.revisions import LEGACY, Revision

VALID_S = 86_400
"""How long an id can be opened."""
MAX_LENGTH = 400

_FORMAT = "1"
_LABEL = b"toolcrib session id"
_CONTENT = struct.Struct("!10sBQ16s")
_SIGNATURE_BYTES = 32
_CAPABILITIES = (
    ("elicitation", None),
    ("elicitation", "form"),
    ("elicitation", "url"),
    ("sampling", None),
    ("roots", None),
)
"""One bit each, in this order: those that questions depend on."""


class SealedSession(NamedTuple):
    """The content of an id. It can be opened until `until_s`, in seconds since 1970."""

    revision: Revision
    capabilities: Mapping[str, Any]
    until_s: float


class SessionIds:
    """Makes and opens ids. The first key signs; what the other keys have signed is accepted, too."""

    def __init__(self, keys: Sequence[bytes] = (), *, wall: Callable[[], float] = time.time) -> None:
        keys = keys or (secrets.token_bytes(32),)
        self._keys = [hmac.digest(key, _LABEL, hashlib.sha256) for key in keys]
        self._wall = wall

    def seal(
        self, process: str, revision: Revision, capabilities: Mapping[str, Any], binding: str
    ) -> tuple[str, SealedSession]:
        """Return a new id and its content."""
        start_s = int(self._wall())
        bits = sum(
            1 << bit
            for bit, (name, part) in enumerate(_CAPABILITIES)
            if name in capabilities and (part is None or part in capabilities[name])
        )
        content = _CONTENT.pack(revision.name.encode(), bits, start_s, secrets.token_bytes(16))
        head = f"{_FORMAT}.{process}."
        signed = content + self._sign(self._keys[0], head, content, binding)
        sealed = SealedSession(revision, _read_bits(bits), start_s + VALID_S)
        return head + base64.urlsafe_b64encode(signed).decode().rstrip("="), sealed

    def open(self, id_: str, binding: str) -> SealedSession | None:
        """Return the content of an id, or None if it is forged, of another principal, or too old."""
        if len(id_) > MAX_LENGTH or not id_.isascii():
            return None
        head, _, text = id_.rpartition(".")
        head += "."
        try:
            signed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        content, signature = signed[:-_SIGNATURE_BYTES], signed[-_SIGNATURE_BYTES:]
        expected = [self._sign(key, head, content, binding) for key in self._keys]
        if not any(hmac.compare_digest(signature, each) for each in expected):
            return None
        is_canonical = base64.urlsafe_b64encode(signed).decode().rstrip("=") == text
        if not is_canonical or not head.startswith(f"{_FORMAT}.") or len(content) != _CONTENT.size:
            return None  # another spelling of the same bytes, or the format of another version
        name, bits, start_s, _ = _CONTENT.unpack(content)
        revision = LEGACY.get(name.decode("latin-1"))
        if revision is None or self.is_over(start_s + VALID_S):
            return None
        return SealedSession(revision, _read_bits(bits), start_s + VALID_S)

    def is_over(self, until_s: float) -> bool:
        return self._wall() >= until_s

    def left_s(self, until_s: float) -> float:
        """Return for how many seconds an id can still be opened."""
        return max(1.0, until_s - self._wall())

    def _sign(self, key: bytes, head: str, content: bytes, binding: str) -> bytes:
        bound = hashlib.sha256(binding.encode("utf-8", "surrogatepass")).digest()
        return hmac.digest(key, bound + head.encode() + content, hashlib.sha256)


def _read_bits(bits: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for bit, (name, part) in enumerate(_CAPABILITIES):
        if bits >> bit & 1:
            found.setdefault(name, {}).update({} if part is None else {part: {}})
    return found

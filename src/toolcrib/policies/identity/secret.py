"""What an API key looks like: `tck_`, 256 random bits, and six characters that tell whether it is whole.

The prefix lets scanners find a key that was left somewhere, the checksum lets them be sure of it. Knows the
shape of keys; refuses to know which ones are good.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib

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

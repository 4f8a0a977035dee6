"""Memory for request bodies of callers who have not said who they are: one budget for all of them.

A caller with a key or token may send bodies of any allowed size. Bodies of all others count, above
`FREE_BYTES`, from the moment their size is known until their request is answered; those beyond the budget are
refused.
"""

from __future__ import annotations

from toolcrib.context import ANONYMOUS, LOCAL, Principal
from toolcrib.transports.http.wire import Answer, Refusal, Request

FREE_BYTES = 16 * 1024
MAX_BYTES = 48 * 1024 * 1024


def is_known(principal: Principal) -> bool:
    """Whether the caller has shown credentials."""
    return principal is not LOCAL and principal is not ANONYMOUS


class BodyBudget:
    """Bytes of bodies that one server keeps for unknown callers."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.used = 0
        self._limit = limit

    def reserve(self, request: Request, size: int) -> Answer | None:
        """Count a body of this size until `release`, or return the answer that refuses it."""
        if size <= FREE_BYTES or request.reserved or is_known(request.principal):
            return None
        if self.used + size > self._limit:
            words = "Too many large requests without credentials at once: try again later"
            return Refusal(503, words, ((b"retry-after", b"1"),)).answer(closes=True)
        request.reserved = size
        self.used += size
        return None

    def shrink(self, request: Request) -> None:
        """Count what the body has in the end: of one in chunks that was not known before."""
        self.used -= request.reserved - len(request.body)
        request.reserved = len(request.body)

    def release(self, request: Request) -> None:
        self.used -= request.reserved
        request.reserved = 0

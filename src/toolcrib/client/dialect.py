"""How requests are dressed in each era of the protocol.

2026-07-28 puts an envelope into every request; before, a handshake said it all once. Knows versions and
where things go in a request; refuses to know how the era is found out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.client.headers import headers_for

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = (MODERN, *LEGACY)

_PREFIX = "io.modelcontextprotocol/"
SERVER_INFO = f"{_PREFIX}serverInfo"
SUBSCRIPTION = f"{_PREFIX}subscriptionId"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version, and what this client says of itself."""

    version: str
    info: Mapping[str, Any]
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def dress(
        self, params: Mapping[str, Any], token: int | None = None, log_level: str | None = None
    ) -> dict[str, Any]:
        """The params of a request, with everything that must stand beside them."""
        meta: dict[str, Any] = {}
        if self.is_modern:
            meta[f"{_PREFIX}protocolVersion"] = self.version
            meta[f"{_PREFIX}clientCapabilities"] = self.capabilities
            meta[f"{_PREFIX}clientInfo"] = self.info
            if log_level is not None:
                meta[f"{_PREFIX}logLevel"] = log_level
        if token is not None:
            meta["progressToken"] = token
        return {**params, "_meta": meta} if meta else dict(params)

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """What HTTP carries beside one request. A legacy session's headers are the same for all of them."""
        return headers_for(self.version, method, params) if self.is_modern else {}

    @property
    def standing_headers(self) -> dict[str, str]:
        """What HTTP carries beside everything from the handshake on."""
        return {} if self.is_modern or self.version < "2025-06-18" else {"mcp-protocol-version": self.version}

"""A server that requires API keys, and HTTP clients of both eras that send one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.clients.legacy_client import Answer, Older
from tests.support.clients.raw_http_client import Response, request
from tests.support.records.key_files import Keys
from tests.support.servers.http_servers import Served
from toolcrib import Context, MCPServer
from toolcrib.policy import Auth, Policy

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


class Ring:
    """A key file and the secrets of its keys."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "keys.json"
        self._keys = Keys(self.file)
        self._secrets: dict[str, str] = {}

    def make(self, name: str, *scopes: str, roles: tuple[str, ...] = ()) -> str:
        secret, _ = self._keys.create(name, scopes, roles)
        self._secrets[name] = secret
        return secret

    def revoke(self, name: str) -> None:
        assert self._keys.revoke(name)

    def __getitem__(self, name: str) -> str:
        return self._secrets[name]


def make_shop(ring: Ring, *, auth: dict[str, Any] | None = None, **demands: Any) -> MCPServer:
    policy = Policy(auth=Auth(keys=ring.file, **(auth or {})), **demands)
    server = MCPServer("shop", version="1.0.0", dynamic=True, policy=policy)
    fill(server)
    return server


def fill(server: MCPServer) -> None:
    @server.tool(run="inline")
    def whoami(ctx: Context) -> str:
        """Tell who calls."""
        return ctx.principal.name

    @server.tool(scopes=["orders:write"])
    async def refund(amount: int) -> str:
        """Give money back."""
        return f"refunded {amount}"

    @server.tool("audit_log", "Read what is written.", MIRRORED)
    async def audit_log(arguments: dict[str, Any]) -> str:
        return "all of it"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask for a yes."""
        return str(bool(await ctx.ask("sure", "Sure?")))

    @server.tool
    async def steps(ctx: Context, count: int = 3) -> str:
        """Tell how far it is."""
        for number in range(count):
            await ctx.progress(number + 1)
        return ctx.principal.name


class Keyed(Older):
    """A legacy client that sends a key with every request."""

    def __init__(self, port: int, key: str | None, version: str = "2025-11-25", **more: Any) -> None:
        super().__init__(port, version, **more)
        self.key = key

    def send(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        shown = {} if self.key is None else {"X_API_Key": self.key}
        return super().send(method, body, **(shown | headers))


def envelope(method: str, params: dict[str, Any], **capabilities: Any) -> bytes:
    meta = {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": capabilities}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return json.dumps(message).encode()


def headers_of(method: str, name: str | None, key: str | None) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    return headers | ({} if key is None else {"Authorization": f"Bearer {key}"})


def ask_modern(
    served: Served, key: str | None, method: str, params: dict[str, Any] | None = None, **headers: str
) -> Response:
    """Return the answer to one request of 2026-07-28."""
    params = params or {}
    fields = headers_of(method, params.get("name"), key) | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return served.post(envelope(method, params, elicitation={}), fields)


def call_modern(
    served: Served, key: str | None, name: str, arguments: Any = None, **headers: str
) -> Response:
    return ask_modern(served, key, "tools/call", {"name": name, "arguments": arguments or {}}, **headers)


def fetch(served: Served, path: str, key: str | None = None, method: str = "GET") -> Response:
    """Fetch a page on a new connection."""
    shown = {} if key is None else {"Authorization": f"Bearer {key}"}
    return served.exchange(request(b"", {**shown, "Connection": "close"}, method=method, path=path))

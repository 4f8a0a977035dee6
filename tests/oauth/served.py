"""A server whose tools require scopes: python -m tests.oauth.served PORT ISSUER"""

from __future__ import annotations

import sys

from toolcrib import Context, MCPServer
from toolcrib.policy import Auth, OAuth, Policy


def read(ctx: Context, name: str) -> str:
    """Read a note."""
    return f"{ctx.principal.name} reads {name}"


def write(ctx: Context, name: str) -> str:
    """Write a note."""
    return f"{ctx.principal.name} writes {name}"


def make_server(issuer: str) -> MCPServer:
    auth = Auth(oauth=[OAuth(issuer=issuer, scopes=["tools:read"])], max_failures="1000/min")
    server = MCPServer("notes", policy=Policy(auth=auth))
    server.add(read, scopes=["tools:read"])
    server.add(write, scopes=["tools:write"])
    return server


def main() -> None:
    port, issuer = sys.argv[1:]
    make_server(issuer).run("http", port=int(port))


if __name__ == "__main__":
    main()

"""The clients' side of a connection: their files, their entries, and how to change the one without the other.

`CLIENTS` are those known, `find_client` finds one by its name. `StdioServer` and `HttpServer` say what to
connect to; `stdio_server` is toolcrib itself. `entry_for` is what a client wants to read of it, `snippet`
what most of them want. `connect`, `replace` and `disconnect` change a file, `list_servers` looks into one.
`Machine` says where the files are.

Knows no command line, no tool and no protocol, and imports nothing of toolcrib but its errors.
"""

from toolcrib.cli.connect.clients import (
    CLIENTS,
    DEFAULT_NAME,
    Client,
    HttpServer,
    Machine,
    Scope,
    Server,
    StdioServer,
    check_name,
    check_url,
    entry_for,
    find_client,
    is_local,
    is_toolcrib,
    name_from,
    snippet,
    stdio_server,
)
from toolcrib.cli.connect.edit import PRIVATE, SHARED, Outcome, connect, disconnect, list_servers, replace

__all__ = [
    "CLIENTS",
    "DEFAULT_NAME",
    "PRIVATE",
    "SHARED",
    "Client",
    "HttpServer",
    "Machine",
    "Outcome",
    "Scope",
    "Server",
    "StdioServer",
    "check_name",
    "check_url",
    "connect",
    "disconnect",
    "entry_for",
    "find_client",
    "is_local",
    "is_toolcrib",
    "list_servers",
    "name_from",
    "replace",
    "snippet",
    "stdio_server",
]

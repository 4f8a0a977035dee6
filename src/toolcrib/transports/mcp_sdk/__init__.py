"""Serve toolcrib's tools on a server of the official SDK: `attach(crib, server)`.

For users who have a `Server` of `mcp` 2.x with its own transports, authorization and resources. This is the
only package that imports `mcp`.
"""

try:
    import mcp as _mcp
except ModuleNotFoundError as error:
    if error.name != "mcp":
        raise
    raise ModuleNotFoundError(
        "toolcrib.transports.mcp_sdk needs the official SDK, which is not installed: pip install 'mcp>=2'",
        name="mcp",
    ) from None
if not hasattr(_mcp, "MCPError"):
    raise ImportError("toolcrib.transports.mcp_sdk needs mcp 2.0 or newer: pip install 'mcp>=2'", name="mcp")

from toolcrib.transports.mcp_sdk.attachment import Attachment, attach

__all__ = ["Attachment", "attach"]

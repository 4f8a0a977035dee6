"""MCP over HTTP. `Endpoint` decides how a request is answered; `server` (our own HTTP server, which costs
less per call) and `asgi` (which mounts anywhere) bring requests to it.
"""

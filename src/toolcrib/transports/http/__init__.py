"""MCP over HTTP. `Endpoint` decides what a request comes to; `server` (our own HTTP server, which costs less
per call) and `asgi` (which mounts anywhere) bring requests to it.
"""

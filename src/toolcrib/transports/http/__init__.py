"""MCP over HTTP. `Endpoint` decides what a request comes to; two lanes bring requests to it: `asgi`, which
mounts anywhere, and `lane`, a small server of our own that `toolcrib serve` uses because it costs less.
"""

"""Bridges to other people's MCP libraries, both ways.

`foreign` takes the tools of servers that were written for `mcp` or `fastmcp`; `official` puts toolcrib's
tools on a server of the official SDK. Nothing is loaded before it is used.
"""

"""Describe a server for others: in the MCP registry and as an MCPB bundle.

`project` reads the files of a project, `registry` makes and checks a `server.json`; `publish` and `bundle`
are the commands.
"""

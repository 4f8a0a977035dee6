"""Tools of servers written for `mcp` or `fastmcp`.

Neither library is imported here: the caller has loaded it already, and its classes
are reached through the server.
"""

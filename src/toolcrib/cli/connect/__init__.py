"""Connect servers to MCP clients by editing the clients' configuration files.

`clients` knows the clients and their files, `edit` changes a file, `command` is the command line.
"""

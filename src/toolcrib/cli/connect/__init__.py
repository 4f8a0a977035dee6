"""Connect servers to MCP clients by editing the clients' configuration files.

`clients` knows the clients and their files, `formats` the file formats; `edit` changes a file, and `command`
is the command line.
"""

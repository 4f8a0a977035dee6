"""Tools of servers that were written for `mcp` or `fastmcp`, taken as they are.

`recognition` tells whose a server is, `reading` makes tools of it. Neither library is ever imported here: who
hands over such a server has loaded it already, and its classes are found through the server itself.
"""

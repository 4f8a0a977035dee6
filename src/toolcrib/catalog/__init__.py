"""Tools as a set of definitions: build, cache, search, lint, export, lock and compare them.

Nothing here calls a tool.
"""

"""What can be said about tools as a set of definitions: so far, whether their words are good.

Stands above the registry and below everything that serves; never calls a tool.
"""

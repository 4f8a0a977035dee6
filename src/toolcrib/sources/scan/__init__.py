"""Static scan: find the tools in source files without importing them.

The syntax tree is followed as Python would run it. Everything that would become a tool is turned into a
stub with the same signature, hints and docstring, and the ordinary code builds the definition from the
stub. The evaluator (`reader` and the modules below it) turns annotations, defaults and classes into real
objects; discovery (`tracing`, `making`, `scan`) decides what is a tool.
"""

from toolcrib.sources.scan.scan import Scan, scan

__all__ = ["Scan", "scan"]

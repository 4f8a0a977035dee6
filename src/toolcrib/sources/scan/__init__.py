"""Tools read from source: `scan` finds what importing would register, and imports nothing.

A syntax tree is followed as Python would run it, and what would become a tool is made into a stub with the
same signature, hints and words; the ordinary code builds the definition from that. Two halves: the evaluator
(`reader` and what is below it) turns annotations, defaults and classes into real objects, and discovery
(`tracing`, `making`, `scan`) decides what is a tool.
"""

from toolcrib.sources.scan.scan import Scan, scan

__all__ = ["Scan", "scan"]

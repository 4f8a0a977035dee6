"""Static scan: find the tools in source files without importing them.

`source_file` looks through a file, `resolve` tells what expressions stand for, `patterns` finds
registrations, and `making` and `holders` turn them into `stubs` with the same signature, hints and docstring,
from which the ordinary code builds the definitions. `values` reads annotations and defaults.
"""

from toolcrib.sources.scan.scan import Scan, scan

__all__ = ["Scan", "scan"]

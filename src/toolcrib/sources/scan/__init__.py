"""Static scan: find the tools in source files without importing them.

`survey` looks through a file, `resolve` tells what names stand for, `patterns` and `holders` find tools, and
`making` turns them into stubs with the same signature, hints and docstring, from which the ordinary code
builds the definitions. `names`, `values`, `hints` and `classes` read annotations and defaults.
"""

from toolcrib.sources.scan.scan import Scan, scan

__all__ = ["Scan", "scan"]

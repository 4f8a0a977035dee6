"""The command `toolcrib`: one file per command, what they share in frame.py, words and tables apart.

`main` is the entry point. Importing this loads click but no engine.
"""

from toolcrib.cli.main import app, main

__all__ = ["app", "main"]

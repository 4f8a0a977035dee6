"""`python -m toolcrib` is the command."""

from toolcrib.cli import main

main()

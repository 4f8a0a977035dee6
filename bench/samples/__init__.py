"""Fifty documented functions as people write them, a module per docstring style; described, not called."""

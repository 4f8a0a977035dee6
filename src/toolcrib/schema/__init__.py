"""Type hints and docstrings to JSON Schema, arguments in, results out."""

"""Which toolcrib this is; a module of its own, so that every layer may know."""

__version__ = "0.1.0"

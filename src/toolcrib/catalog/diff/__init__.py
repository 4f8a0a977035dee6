"""Compare two catalogs: what changed in each tool, and how much it matters."""

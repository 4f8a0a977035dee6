"""Child processes, and the lines of their pipes. Knows nothing of tools."""

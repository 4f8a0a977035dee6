"""State in SQLite: one file for all processes of a machine, or none for a single process."""

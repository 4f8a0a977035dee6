"""State in PostgreSQL: tasks, values, keys and audit records of many machines."""

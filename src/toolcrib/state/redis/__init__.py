"""State in Redis: counts of calls, and notices between replicas."""

"""Replicas on many machines: shared state, membership, and what a replica does in an outage."""

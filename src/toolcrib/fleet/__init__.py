"""Replicas on many machines: shared state behind breakers, membership, and what a replica does in an outage."""

"""Transports: stdio, in-memory pipes and HTTP. All of them drive the same protocol engine."""

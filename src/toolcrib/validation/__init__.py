"""JSON codec, JSON Schema validation and schema limits."""

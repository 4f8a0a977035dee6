"""How messages come and go: pipes (stdio, memory) and HTTP. All of them drive the same engine."""

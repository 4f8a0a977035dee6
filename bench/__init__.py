"""The benchmark: toolcrib against the libraries people would pick instead, measured in one run."""

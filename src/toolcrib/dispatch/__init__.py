"""Run calls: look up the tool, check and convert arguments, run the handler, convert the result."""

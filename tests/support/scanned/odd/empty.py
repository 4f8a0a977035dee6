# doubts: no-tools
"""Nothing at all."""

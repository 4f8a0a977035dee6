"""The tool registry."""

from toolcrib.registry.registry import Change, Report, ToolRegistry

__all__ = ["Change", "Report", "ToolRegistry"]

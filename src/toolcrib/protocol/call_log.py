"""What the log says of requests: who lists sees what, who calls gives which arguments.

All of it is at INFO; where that is off, a request pays for one look. Of arguments the names are written, and
the values only where the server was told so: they are the client's, and may be secrets. What a client wrote
is cut, and cannot end a line. Knows the log; refuses to know replies.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")

MAX_NAMES = 50
MAX_NAME = 64
MAX_VALUES = 2000


def record_list(tools: Sequence[Tool], cursor: str | None) -> None:
    """A client asks for the tools, or for another page of them."""
    if not logger.isEnabledFor(logging.INFO):
        return
    if cursor is not None:
        logger.info("Client requesting the next tools")
        return
    logger.info("Client requesting tool list")
    logger.info("Returning %d tools:", len(tools), extra={"total_tools": len(tools)})
    for tool in tools:
        words = tool.definition.description.strip().partition("\n")[0]
        logger.info(" - %s: %s", tool.name, words, extra={"tool_name": tool.name})


def record_call(name: str, arguments: Mapping[str, Any] | None, *, values: bool) -> None:
    """A client calls a tool. `values`: whether those of the arguments may be written."""
    name, given = _plain(name), arguments or {}
    names = [_plain(key) for key in islice(given, MAX_NAMES)]
    if len(given) > MAX_NAMES:
        names.append(f"... ({len(given) - MAX_NAMES} more)")
    logger.info("Tool execution request: %s", name, extra={"tool_name": name})
    words = _cut(json.dumps(given), MAX_VALUES) if values else ", ".join(names) or "none"
    logger.info("Arguments: %s", words, extra={"tool_name": name, "argument_names": names})


def _plain(text: str) -> str:
    text = _cut(text, MAX_NAME)
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."

"""Sample tools: five to try a server with, and two that read files, which are disabled by default.

They use only the public API, as tools of users do. `enable_math_tools` (on) and `enable_file_tools` (off) are
their switches. The file tools read below one folder: TOOLCRIB_FILES_ROOT, or the current one.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from pathlib import Path
from typing import Any, Literal

from toolcrib.component import tool
from toolcrib.content import Result
from toolcrib.context import Context
from toolcrib.errors import ToolError

ROOT_VARIABLE = "TOOLCRIB_FILES_ROOT"
MAX_FILE_BYTES = 256 * 1024
MAX_ENTRIES = 1000
_EXACT = 1e16  # Python writes larger floats with an exponent


@tool(read_only=True, idempotent=True, open_world=False, run="inline")
def hello_world(name: str = "World") -> str:
    """A simple greeting tool.

    Args:
        name: Name to greet (optional)
    """
    return f"Hello, {name}!"


@tool(read_only=True, idempotent=True, open_world=False, run="inline")
def echo(message: str, prefix: str = "Echo: ") -> str:
    """Echo back the input message.

    Args:
        message: Message to echo back
        prefix: Text to put before the message
    """
    return f"{prefix}{message}"


@tool(read_only=True, open_world=False)
def get_time(
    format: Literal["iso", "readable", "timestamp"] = "iso",  # noqa: A002 - fixed by a requirement
    timezone: str = "UTC",
) -> str:
    """Get current time in various formats.

    Args:
        format: How to write the time
        timezone: IANA time zone name, for example Europe/Berlin
    """
    now = dt.datetime.now(_zone(timezone))
    match format:
        case "iso":
            return now.isoformat(timespec="seconds")
        case "timestamp":
            return str(int(now.timestamp()))
        case _:
            return f"{now:%A, %d %B %Y, %H:%M:%S} {now.tzname()}"


@tool(
    group="math",
    read_only=True,
    idempotent=True,
    open_world=False,
    run="inline",
    output_schema={"type": "number", "description": "The sum"},
)
def math_add(a: float, b: float) -> Result:
    """Add two numbers together.

    Args:
        a: First number
        b: Second number
    """
    total = a + b
    if not math.isfinite(total):
        raise ToolError("The sum is too large for a number.")
    return Result.of(f"{_shown(a)} + {_shown(b)} = {_shown(total)}", _whole(total))


@tool(read_only=True, open_world=False, run="inline")
def debug_info(include_tools: bool = True, include_stats: bool = True, *, ctx: Context) -> dict[str, Any]:
    """Get debug information about the server.

    Args:
        include_tools: Whether to list the names of all tools
        include_stats: Whether to give calls, errors and mean time of each tool

    Returns:
        The server's name, its uptime in seconds, the number of requests, tools and statistics
    """
    if ctx.server is None:
        raise ToolError("This call was made without a server.")
    facts: dict[str, Any] = ctx.server.describe()
    if not include_tools:
        facts.pop("tools", None)
    if not include_stats:
        facts.pop("statistics", None)
    return facts


@tool(group="file", enabled=False, read_only=True, open_world=False)
def list_files(folder: str = ".") -> list[str]:
    """List the files in a folder.

    Args:
        folder: Path below the shared folder

    Returns:
        Names in alphabetical order; those of folders end in a slash
    """
    found = _below_root(folder)
    if not found.is_dir():
        raise ToolError(f"There is no folder '{folder}'.")
    try:
        with os.scandir(found) as entries:
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
    except OSError as error:
        raise ToolError(f"'{folder}' cannot be listed: {error.strerror}.") from None
    if len(names) > MAX_ENTRIES:
        raise ToolError(f"'{folder}' has {len(names)} entries, more than {MAX_ENTRIES}: list a subfolder.")
    return names


@tool(group="file", enabled=False, read_only=True, open_world=False)
def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: Path below the shared folder
    """
    found = _below_root(path)
    if not found.is_file():
        raise ToolError(f"There is no file '{path}'.")
    try:
        with found.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ToolError(f"'{path}' cannot be read: {error.strerror}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise ToolError(f"'{path}' is larger than {MAX_FILE_BYTES // 1024} KiB.")
    if b"\x00" in data:
        raise ToolError(f"'{path}' is not a text file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(f"'{path}' is not a text file in UTF-8.") from None


def _below_root(path: str) -> Path:
    """Return the resolved path. Raises ToolError outside the shared folder, without naming that folder."""
    try:
        root = Path(os.environ.get(ROOT_VARIABLE) or ".").resolve()
        found = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, links in a circle
        raise ToolError(f"'{path[:80]}' is not a path.") from None
    if not found.is_relative_to(root):
        raise ToolError(f"'{path}' is outside the shared folder.")
    return found


def _whole(number: float) -> float:
    """Return a float without a fraction as an integer."""
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _shown(number: float) -> str:
    return str(_whole(number))


def _zone(name: str) -> dt.tzinfo:
    if name.upper() in ("UTC", "Z"):
        return dt.UTC  # needs no time zone data
    import zoneinfo  # start-up time

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = zoneinfo.available_timezones()
    if not known:
        raise ToolError("This machine has no time zone data: use UTC, or install the package 'tzdata'.")
    import difflib

    spellings = {zone.casefold(): zone for zone in known}
    close = difflib.get_close_matches(name.casefold(), spellings, n=1)
    hint = f"Did you mean '{spellings[close[0]]}'?" if close else "Use an IANA name such as 'Europe/Berlin'."
    raise ToolError(f"Unknown time zone '{name}'. {hint}")

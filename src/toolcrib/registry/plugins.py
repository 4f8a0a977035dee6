"""Load plugins: objects that other packages name in entry points.

    for name, rule in load_plugins("toolcrib.lint"):
        ...

Call it where a plugin could be used, never on import: reading the metadata of installed packages takes
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from toolcrib.errors import ConfigurationError


@cache
def find_plugins(group: str) -> Mapping[str, Any]:
    """Return the entry points of a group by name, without importing them."""
    from importlib.metadata import entry_points  # delayed: a server without plugins does not need it

    return {item.name: item for item in sorted(entry_points(group=group))}


@cache
def load_plugin(group: str, name: str) -> Any:
    """Import the object of an entry point. Raise ConfigurationError if that fails."""
    entry_point = find_plugins(group)[name]
    try:
        return entry_point.load()
    except (Exception, SystemExit) as error:
        package = f" of package '{entry_point.dist.name}'" if entry_point.dist is not None else ""
        raise ConfigurationError(
            f"Cannot load the plugin '{name}'{package} ({group}): {type(error).__name__}: {error}"
        ) from error


def load_plugins(group: str) -> tuple[tuple[str, Any], ...]:
    """Return the name and the object of every entry point in a group, ordered by name."""
    return tuple((name, load_plugin(group, name)) for name in find_plugins(group))

"""Load what other packages add to toolcrib through entry points.

    for name, rule in load_plugins("toolcrib.lint"):
        ...

Call it where a plugin could be used, never on import: reading the metadata of installed packages takes
milliseconds.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from toolcrib.errors import ConfigurationError


@cache
def load_plugins(group: str) -> tuple[tuple[str, Any], ...]:
    """Return the name and the object of every entry point in a group, ordered by name.

    Raises:
        ConfigurationError: An entry point cannot be imported
    """
    from importlib.metadata import entry_points  # delayed: a server without plugins does not need it

    return tuple((item.name, _load(item)) for item in sorted(entry_points(group=group)))


def _load(entry_point: Any) -> Any:
    try:
        return entry_point.load()
    except Exception as error:
        package = f" of package '{entry_point.dist.name}'" if entry_point.dist is not None else ""
        raise ConfigurationError(
            f"Cannot load the plugin '{entry_point.name}'{package} ({entry_point.group}):"
            f" {type(error).__name__}: {error}"
        ) from error

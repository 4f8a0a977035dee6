"""Where somebody is: platform, home, environment, current folder.

Handed in, so that the places of Windows can be asked for on Linux. Knows what each platform calls the folder
for an application's data; refuses to know applications.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """`platform` as in `sys.platform`; `folder` is the project's."""

    platform: str
    home: Path
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, Path.home(), Path.cwd(), os.environ)

    @property
    def application_data(self) -> Path:
        """Where desktop applications keep what belongs to a user."""
        match self.platform:
            case "win32":
                return self.variable("APPDATA") or self.home / "AppData" / "Roaming"
            case "darwin":
                return self.home / "Library" / "Application Support"
            case _:
                return self.variable("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def local_data(self) -> Path:
        """Windows' folder for what does not travel with the user."""
        return self.variable("LOCALAPPDATA") or self.home / "AppData" / "Local"

    def variable(self, name: str) -> Path | None:
        """A folder that a variable names; an empty one names nothing."""
        value = self.environ.get(name, "").strip()
        return Path(value) if value else None

"""Virtual environments with one version of a library each, side by side in `.matrix/`.

An environment is made once and used until its requirements, or those of toolcrib, change. Packages are
installed by name: with `uv` if that is on the path, else with pip.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.requires import lack
from tests.support.worker_lock import alone

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".matrix"
INSTALL_S = 900


@dataclass(frozen=True)
class Environment:
    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / ("Scripts" if os.name == "nt" else "bin") / name)

    def version_of(self, package: str) -> str | None:
        """Return the version of a package that is installed, or None."""
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))
        found = next(packages.glob(f"{package}-*.dist-info"), None)
        return None if found is None else found.name.removesuffix(".dist-info").partition("-")[2]


def make_environment(name: str, *requirements: str) -> Environment:
    """Return an environment that has toolcrib from this tree and some other packages."""
    HOME.mkdir(exist_ok=True)
    environment = Environment(HOME / name)
    stamp = environment.folder / ".requirements"
    with alone(HOME / f"{name}.lock"):
        wanted = _digest(requirements)
        if not stamp.exists() or stamp.read_text() != wanted:
            _install(environment, requirements)
            stamp.write_text(wanted)
    return environment


def _digest(requirements: tuple[str, ...]) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    words = [*requirements, *project["dependencies"], sys.version, str(ROOT)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _install(environment: Environment, requirements: tuple[str, ...]) -> None:
    uv = shutil.which("uv")
    venv.create(environment.folder, with_pip=uv is None, clear=True)
    python = environment.program("python")
    command = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    done = subprocess.run(
        [*command, "--quiet", "--editable", str(ROOT), *requirements],
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode:
        lack(f"{' '.join(requirements)} cannot be installed: {done.stderr.strip()[-500:]}")

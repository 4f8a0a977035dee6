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
from itertools import chain
from pathlib import Path

from tests.support.system.requires import lack
from tests.support.system.worker_lock import alone

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".matrix"
INSTALL_S = 900


@dataclass(frozen=True)
class Environment:
    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def program(self, name: str) -> str:
        return str(self.programs / name)

    def version_of(self, package: str) -> str | None:
        """Return the version of a package that is installed, or None."""
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(self.folder)}))
        found = next(packages.glob(f"{package}-*.dist-info"), None)
        return None if found is None else found.name.removesuffix(".dist-info").partition("-")[2]


def make_environment(name: str, *requirements: str, lock: Path | None = None) -> Environment:
    """Return an environment that has toolcrib from this tree, what `lock` pins, and some other packages."""
    HOME.mkdir(exist_ok=True)
    environment = Environment(HOME / name)
    stamp = environment.folder / ".requirements"
    with alone(HOME / f"{name}.lock"):
        wanted = _digest(requirements, lock)
        if not stamp.exists() or stamp.read_text() != wanted:
            _install(environment, requirements, lock)
            stamp.write_text(wanted)
    return environment


def floor_of(package: str) -> str:
    """Return the lowest version of a dependency that pyproject.toml accepts, as a requirement."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return next(item.replace(">=", "==") for item in bounds if item.startswith(f"{package}>="))


def _digest(requirements: tuple[str, ...], lock: Path | None) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = "" if lock is None else lock.read_text()
    words = [*requirements, *project["dependencies"], pins, sys.version, str(ROOT)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _install(environment: Environment, requirements: tuple[str, ...], lock: Path | None) -> None:
    uv = shutil.which("uv")
    venv.create(environment.folder, clear=True)
    python = environment.program("python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile"]
    command = [uv, "pip", "install", "--python", python] if uv else pip
    steps = [] if lock is None else [["--require-hashes", "--no-deps", "--requirement", str(lock)]]
    for step in (*steps, ["--editable", str(ROOT), *requirements]):
        done = subprocess.run(
            [*command, "--quiet", *step], capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if done.returncode:
            lack(f"{' '.join(step)} cannot be installed: {done.stderr.strip()[-500:]}")

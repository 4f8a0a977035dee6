"""Node.js and the packages of a folder, for tests: found, or installed once with npm.

    python -m tests.support.system.node    installs the packages of the wire tests in advance

The installed Node.js is used if it is new enough; otherwise npm installs one. Packages are installed from the
lock files beside the tests, and again when these change.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.system.requires import IS_REQUIRED, lack
from tests.support.system.worker_lock import alone

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
OAUTH = CONFORMANCE.parent / "oauth"
OLDEST = (22, 19)
"""What the newest of the packages asks for."""
INSTALL_S = 600.0


class MissingError(Exception):
    """Something is missing and could not be installed; the message says what, in one line."""


@dataclass(frozen=True)
class Node:
    """A Node.js, and the folder whose packages its scripts import."""

    program: Path
    folder: Path

    def package(self, name: str, *path: str) -> Path:
        return self.folder.joinpath("node_modules", *name.split("/"), *path)


@pytest.fixture(scope="session")
def node() -> Node:
    """Node.js with the official suite and clients."""
    try:
        return find_node()
    except MissingError as missing:
        lack(str(missing))


@cache
def find_node(folder: Path = CONFORMANCE) -> Node:
    """Node.js with the packages of a folder. Raises MissingError. Quick if they are installed."""
    program = _own_program() or _installed_program(CONFORMANCE / "node")
    install(folder)
    os.environ.setdefault("NODE_COMPILE_CACHE", str(folder / "node_modules" / ".compiled"))
    return Node(program, folder)


def install(folder: Path) -> None:
    """Install the packages of a folder's lock file; several processes may do so at once."""
    stamp = folder / "node_modules" / ".installed"
    digest = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    if _reads(stamp, digest):
        return
    with alone(folder / ".installing"):
        if _reads(stamp, digest):
            return
        npm = shutil.which("npm")
        if npm is None:
            raise MissingError(f"npm, which installs the packages of {folder.name}, is not on this machine")
        # Not `npm ci`, which refuses a lock file that lacks what a registry lacks for other systems. What
        # packages would run while they are installed is not wanted: all of them work without.
        command = [npm, "install", "--no-save", "--ignore-scripts"]
        command += ["--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            raise MissingError(f"npm in {folder.name} did not end within {INSTALL_S:g} s") from None
        if done.returncode:
            words = " ".join(done.stderr.split())[:400]
            raise MissingError(f"npm in {folder.name} failed: {words}")
        stamp.write_text(digest)


def _own_program() -> Path | None:
    found = shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30).stdout
    numbers = said.strip().lstrip("v").split(".")[:2]
    is_new = all(part.isdigit() for part in numbers) and tuple(map(int, numbers)) >= OLDEST
    return Path(found) if is_new else None


def _installed_program(folder: Path) -> Path:
    install(folder)
    name = "node.exe" if os.name == "nt" else "node"
    found = sorted(folder.glob(f"node_modules/node-*/bin/{name}"))
    if not found:
        raise MissingError(f"Node.js {OLDEST[0]} or newer is not here, and npm has none for this machine")
    return found[0]


def _reads(stamp: Path, digest: str) -> bool:
    try:
        return stamp.read_text() == digest
    except FileNotFoundError:
        return False


def main() -> int:
    for folder in (CONFORMANCE, OAUTH):
        try:
            found = find_node(folder)
        except MissingError as missing:
            print(f"not installed: {missing}", file=sys.stderr)
            return 1 if IS_REQUIRED else 0
        print(f"{found.program} with the packages of {found.folder}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A git repository for tests about commits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from textwrap import dedent


class Repository:
    """A repository in a folder; each commit contains all its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Somebody")
        self.git("config", "user.email", "somebody@example.com")
        self.git("config", "commit.gpgsign", "false")

    def git(self, *words: str, data: bytes | None = None) -> str:
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, input=data, capture_output=True, check=True, env=environ
        )
        return done.stdout.decode().strip()

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    def commit(self, **files: str) -> str:
        """Write files (`tools` is tools.py) and commit everything; returns the commit."""
        for name, text in files.items():
            self.write(f"{name.replace('__', '/')}.py", text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "A change")
        return self.git("rev-parse", "HEAD")

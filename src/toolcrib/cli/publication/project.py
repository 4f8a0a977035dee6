"""The facts about a project that is published, from `pyproject.toml`, `toolcrib.toml` and options.

A fact that is missing or cannot be used becomes a finding, so that a command reports all of them at once.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolcrib.cli.options import CommandError
from toolcrib.cli.output import Terminal, shorten_paths
from toolcrib.config import Config, VariableConfig, load_config
from toolcrib.config.fields import parse_toml
from toolcrib.errors import ConfigurationError, Finding
from toolcrib.sources.targets import FILE_NAME, Target, parse_target, settings_files

PYPROJECT = "pyproject.toml"
_CODE = "publication"
_VERSION = re.compile(
    r"""^(?:__version__|VERSION|version)\s*(?::[^=\n]*)?=\s*["']([^"'\n]+)["']""", re.MULTILINE
)
_REPOSITORY_LABELS = ("repository", "source", "source code", "sourcecode", "github", "gitlab", "code")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::\s*(.*))?", re.DOTALL)
FORGES = {"github.com": "github", "gitlab.com": "gitlab"}
"""The hosts of repositories that the registry accepts."""


@dataclass(slots=True)
class Report:
    """The findings about a project. A command reports all of them, and writes nothing if one is an error."""

    findings: list[Finding] = field(default_factory=list)

    def error(self, message: str, hint: str | None = None, file: str | None = None) -> None:
        self.findings.append(Finding(_CODE, "error", message, hint=hint, file=file))

    def warn(self, message: str, hint: str | None = None, file: str | None = None) -> None:
        self.findings.append(Finding(_CODE, "warning", message, hint=hint, file=file))

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    def show(self, terminal: Terminal) -> None:
        for finding in sorted(self.findings, key=lambda finding: finding.level):
            terminal.finding(finding)


@dataclass(frozen=True, slots=True)
class Project:
    """The files of a project. `root` is the folder of its `pyproject.toml`, or of the first target."""

    root: Path
    pyproject: Path | None
    data: Mapping[str, Any]
    """The document of `pyproject.toml`."""
    config: Config

    @property
    def table(self) -> Mapping[str, Any]:
        found = self.data.get("project")
        return found if isinstance(found, Mapping) else {}

    def text(self, key: str) -> str | None:
        """Return a string of the `[project]` table on one line, or None."""
        value = self.table.get(key)
        return " ".join(value.split()) or None if isinstance(value, str) else None

    @property
    def name(self) -> str | None:
        return self.text("name")

    @property
    def version(self) -> str | None:
        """The version, also where the build reads it from a file; otherwise that of the installed package."""
        return self.text("version") or self._find_dynamic_version()

    @property
    def scripts(self) -> Mapping[str, Any]:
        found = self.table.get("scripts")
        return found if isinstance(found, Mapping) else {}

    @property
    def urls(self) -> dict[str, str]:
        """The addresses of `[project.urls]`, by their labels in lower case."""
        found = self.table.get("urls")
        items = found.items() if isinstance(found, Mapping) else ()
        return {str(label).strip().lower(): url.strip() for label, url in items if isinstance(url, str)}

    @property
    def repository(self) -> str | None:
        """The address of the repository, if one is named."""
        if self.config.publish.repository:
            return self.config.publish.repository
        named = [self.urls[label] for label in _REPOSITORY_LABELS if label in self.urls]
        hosted = [url for url in self.urls.values() if forge_of(url) is not None]
        return next(iter([*named, *hosted]), None)

    @property
    def website(self) -> str | None:
        labels = ("homepage", "home", "documentation", "docs")
        found = [self.urls[label] for label in labels if label in self.urls]
        return next((url for url in found if url.startswith("https://") and url != self.repository), None)

    @property
    def author(self) -> dict[str, str] | None:
        """The first author who has a name."""
        if self.config.publish.author:
            return {"name": self.config.publish.author}
        authors = self.table.get("authors")
        for each in authors if isinstance(authors, list) else ():
            if isinstance(each, Mapping) and isinstance(each.get("name"), str) and each["name"].strip():
                email = each.get("email")
                return {"name": each["name"], **({"email": email} if isinstance(email, str) else {})}
        return None

    @property
    def license(self) -> str | None:
        found = self.table.get("license")
        text = found.get("text") if isinstance(found, Mapping) else found
        return text if isinstance(text, str) and "\n" not in text else None

    @property
    def dependencies(self) -> list[str]:
        found = self.table.get("dependencies")
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    def read_readme(self) -> tuple[str, str] | None:
        """Return the name and the text of the README that PyPI would show, or None."""
        given = self.table.get("readme")
        if isinstance(given, Mapping) and isinstance(given.get("text"), str):
            return PYPROJECT, given["text"]
        name = given.get("file") if isinstance(given, Mapping) else given
        if isinstance(name, str):
            with suppress(OSError, UnicodeDecodeError):
                return name, (self.root / name).read_text("utf-8")
        return None

    def _find_dynamic_version(self) -> str | None:
        tool = self.data.get("tool")
        tables = tool if isinstance(tool, Mapping) else {}
        for path in _version_files(tables):
            for file in (self.root / path, self.root / "src" / path):
                with suppress(OSError, UnicodeDecodeError):
                    text = file.read_text("utf-8")
                    found = _VERSION.search(text)
                    if found or file.suffix != ".py":
                        return found[1] if found else text.strip()
        try:
            return importlib.metadata.version(self.name) if self.name else None
        except importlib.metadata.PackageNotFoundError:
            return None


def _version_files(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files in which build tools look for the version."""

    def get(*keys: str) -> Any:
        found: Any = tool
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    for path in (get("hatch", "version", "path"), get("pdm", "version", "path")):
        if isinstance(path, str):
            yield path
    file = get("setuptools", "dynamic", "version", "file")
    yield from (each for each in (file if isinstance(file, list) else [file]) if isinstance(each, str))
    attribute = get("setuptools", "dynamic", "version", "attr")
    if isinstance(attribute, str):
        module = attribute.rpartition(".")[0].replace(".", "/")
        yield from (f"{module}.py", f"{module}/__init__.py")


def find_project(targets: Sequence[str]) -> Project:
    """Return the project of the first target, or of the current folder. Raises ConfigurationError."""
    configs = [load_config(file) for file in settings_files(targets) if file.is_file()]
    config = configs[0] if configs else Config()
    start = folder_of(parse_target(targets[0])) if targets else Path.cwd()
    pyproject = find_pyproject(start)
    data: Mapping[str, Any] = {}
    if pyproject is not None:
        try:
            data = parse_toml(pyproject.read_text("utf-8"), str(pyproject))
        except UnicodeDecodeError:
            raise ConfigurationError("not UTF-8 text", file=str(pyproject)) from None
    return Project(start if pyproject is None else pyproject.parent, pyproject, data, config)


def folder_of(target: Target) -> Path:
    """Return the folder in which a project's files are looked for: that of a file, or the current one."""
    if target.path is None:
        return Path.cwd()
    path = Path(os.path.abspath(target.path))
    return path if path.is_dir() else path.parent


def find_pyproject(folder: Path) -> Path | None:
    """Return the nearest `pyproject.toml`, in a folder or above it, up to the root of its repository."""
    for each in (folder, *folder.parents):
        if (each / PYPROJECT).is_file():
            return each / PYPROJECT
        if (each / ".git").exists() or each == Path.home():
            break
    return None


def has_settings(targets: Sequence[str]) -> bool:
    """Return whether there is something to load: targets, or a `toolcrib.toml` in the current folder."""
    return bool(targets) or Path(FILE_NAME).is_file()


def forge_of(url: str) -> str | None:
    """Return the hosting service of a repository, as the registry names it."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    return FORGES.get(host) if len(parts.path.strip("/").split("/")) >= 2 else None


def owner_of(url: str) -> tuple[str, str]:
    """Return the owner and the name of a repository on a known host."""
    owner, name = urlsplit(url).path.strip("/").split("/")[:2]
    return owner, name.removesuffix(".git")


def collect_variables(config: Config, env: Sequence[str], secrets: Sequence[str]) -> list[VariableConfig]:
    """Return the environment variables of `[[publish.environment]]` and of the options, which come first."""
    given: dict[str, VariableConfig] = {}
    for option, texts in (("--env", env), ("--secret", secrets)):
        for text in texts:
            found = _VARIABLE.fullmatch(text)
            if found is None:
                hint = f"e.g. {option} 'SHOP_TOKEN:The token of the shop'"
                raise CommandError(f"{option} must be NAME or NAME:DESCRIPTION, got {text!r}", hint)
            if found[1] in given:
                raise CommandError(f"The variable {found[1]} is given twice", "give it once")
            is_secret = option == "--secret"
            given[found[1]] = VariableConfig(
                found[1], (found[2] or "").strip() or None, required=is_secret, secret=is_secret
            )
    named = {each.name: each for each in config.publish.environment}
    return [*given.values(), *(each for name, each in named.items() if name not in given)]


def describe_file(path: Path | None) -> str:
    return PYPROJECT if path is None else shorten_paths(str(path))


def place_of(project: Project, key: str) -> str:
    """Return where to write a fact that is missing: in `pyproject.toml` if there is one."""
    if project.pyproject is not None:
        return f"{key} under [project] in {describe_file(project.pyproject)}"
    return f"{key} under [{'server' if key == 'version' else 'publish'}] in {FILE_NAME}"


# --- the imports of files ----------------------------------------------------------------------------


def find_imports(file: Path) -> set[str]:
    """Return the top-level names of the modules that a Python file imports, without running it."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found

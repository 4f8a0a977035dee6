"""`toolcrib publish`: describe a server for others, in the `server.json` of the MCP registry and the
`manifest.json` of an MCPB bundle.

Both are made of `pyproject.toml` and `toolcrib.toml`; everything that is missing is reported at once.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from toolcrib import __version__
from toolcrib.cli.load import Loaded, load_for_serving
from toolcrib.cli.options import Command, CommandError, Targets, json_option, named_targets, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.text import count
from toolcrib.config import Config, VariableConfig, load_config
from toolcrib.config.atomic_file import write_file
from toolcrib.config.fields import parse_toml, read_text
from toolcrib.errors import Finding, Level
from toolcrib.sources.targets import Target, parse_target, settings_files
from toolcrib.state import sqlite_path

EXAMPLES = """
toolcrib publish                  write server.json and manifest.json
toolcrib publish --check          are they up to date?
toolcrib publish --only manifest  for a bundle of a server not on PyPI
"""
SERVER = "server.json"
MANIFEST = "manifest.json"
IGNORE_FILE = ".mcpbignore"
SCHEMA_URL = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_FORGES = {"github.com": "github", "gitlab.com": "gitlab"}  # that the registry accepts
_NAME = re.compile(r"(?=[a-zA-Z0-9-]*\.)[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_MCP_NAME = re.compile(r"mcp-name: ([a-zA-Z0-9.-]+/[a-zA-Z0-9._-]*[a-zA-Z0-9_-])")

IGNORED = (
    ".*", "kubeconfig*", "*.kubeconfig", "*.sqlite*", "*.db", "*.db-*", "*.pem", "*.key", "*.p12", "*.pfx",
    "*.keystore", "*.keys.json", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials*", "secrets.*",
    "venv", "__pycache__", "*.pyc", "*.egg-info", "node_modules", "/dist", "/build", "*.log", "*.mcpb",
)  # fmt: skip
"""Files that a bundle must not hold or does not need, as in a `.gitignore`; mcpb ignores case."""


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
@click.option("--check", is_flag=True, help="Write nothing; are the files up to date?")
@click.option("--only", type=click.Choice(["server", "manifest"]), help="Write this one.  [default: both]")
@click.option("--version", metavar="VERSION", help="Version.  [default: from pyproject.toml]")
def publish(
    terminal: Terminal, targets: Targets, as_json: bool, check: bool, only: str | None, version: str | None
) -> int:
    """Write server.json for the MCP registry and manifest.json for an MCPB bundle.

    Facts come from pyproject.toml and toolcrib.toml ([publish]); nothing is sent anywhere. Keys that were
    added to the files by hand are kept. `.mcpbignore` keeps secrets out of the bundle, which
    `npx @anthropic-ai/mcpb pack` writes. Exit code 1: not written, or not up to date.

    A TARGET is a Python file, folder, module, module:object or toolcrib.toml; its tools must have no errors.
    """
    found = [parse_target(target) for target in named_targets(targets)]
    with terminal.log.muted():
        loaded = load_for_serving(targets, terminal)
    loaded.catalog(terminal)
    project = Project.read(targets, found[0], version, loaded.errors)
    documents: dict[str, dict[str, Any]] = {}
    if only != "manifest":
        documents[SERVER] = make_server_json(project, _read_old(project.root / SERVER, "$schema"))
    if only != "server":
        old = _read_old(project.root / MANIFEST, "manifest_version")
        documents[MANIFEST] = make_manifest(project, loaded, found, targets, old)
    for finding in sorted(project.findings, key=lambda finding: finding.level):
        terminal.finding(finding)
    if errors := [finding for finding in project.findings if finding.level == "error"]:
        terminal.message("note", f"Nothing written: {count(len(errors), 'problem')}")
        return 1
    texts = {name: json.dumps(each, indent=2, ensure_ascii=False) + "\n" for name, each in documents.items()}
    if MANIFEST in texts:
        texts[IGNORE_FILE] = make_ignore_file(project)
    files = {project.root / name: text.encode() for name, text in texts.items()}
    changed = [file for file, text in files.items() if not file.is_file() or file.read_bytes() != text]
    names = ", ".join(file.name for file in changed or files)
    if as_json:
        terminal.json(documents)
        return 1 if check and changed else 0
    if not changed:
        terminal.message("note", f"up to date: {names}")
        return 0
    if check:
        terminal.message("error", f"not up to date: {names}", "run this without --check")
        return 1
    for file in changed:
        write_file(file, files[file])
    terminal.message("note", f"written: {names}", "next: mcp-publisher publish; npx @anthropic-ai/mcpb pack")
    return 0


def _read_old(file: Path, key: str) -> dict[str, Any]:
    """Return the document that is there. Raise CommandError for a file that is something else."""
    if not file.exists():
        return {}
    with suppress(ValueError):
        found = json.loads(file.read_text("utf-8"))
        if isinstance(found, dict) and key in found:
            return found
    raise CommandError(f"{file} is not a {file.name} of MCP: it has no '{key}'", "move it elsewhere")


@dataclass(slots=True)
class Project:
    """The facts about a project: the folder of its `pyproject.toml`, the table `[project]`, the settings."""

    root: Path
    table: Mapping[str, Any]
    config: Config
    name: str
    description: str
    version: str
    findings: list[Finding]

    @classmethod
    def read(
        cls, targets: Sequence[str], first: Target, version: str | None, findings: Sequence[Finding]
    ) -> Project:
        """Read the files of a project. Raise CommandError if there is no `pyproject.toml` with a name."""
        file = _find_pyproject(Path(os.path.abspath(first.path or ".")))
        table = {} if file is None else parse_toml(read_text(file), str(file)).get("project")
        if file is None or not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise CommandError("No pyproject.toml names the project", "write one with a [project] table")
        config = next((load_config(each) for each in settings_files(targets)), Config())
        name, description = table["name"], config.publish.description or str(table.get("description", ""))
        project = cls(file.parent, table, config, name, description, version or "", [*findings])
        if version is None:
            with suppress(importlib.metadata.PackageNotFoundError):  # a dynamic version needs the package
                project.version = project.text("version") or importlib.metadata.version(name)
        if not _VERSION.fullmatch(project.version):
            text = f"Not a version: {project.version!r:.80}" if project.version else "Missing version"
            hint = "write version under [project] in pyproject.toml, or use --version 1.2.3"
            project.report("error", text, hint)
        if not project.description:
            project.report("error", "Missing description", "write it under [project] in pyproject.toml")
        return project

    def report(self, level: Level, message: str, hint: str) -> None:
        self.findings.append(Finding("publication", level, message, hint=hint))

    def text(self, key: str) -> str:
        """Return a string of the table."""
        value = self.table.get(key)
        return value if isinstance(value, str) else ""

    def url(self, *labels: str) -> str | None:
        """Return the address of `[project.urls]` that has one of these labels."""
        urls = self.table.get("urls")
        found = {label.lower(): url for label, url in urls.items()} if isinstance(urls, Mapping) else {}
        return next((str(found[label]) for label in labels if label in found), None)

    @property
    def repository(self) -> str | None:
        found = self.url("repository", "source", "source code", "github", "gitlab", "code")
        return found.removeprefix("git+").removesuffix(".git") if found else None

    def path_of(self, path: Path) -> str | None:
        """Return the path of a file in the project, or None if it is elsewhere."""
        full = Path(os.path.abspath(path))
        return full.relative_to(self.root).as_posix() if full.is_relative_to(self.root) else None


def _find_pyproject(start: Path) -> Path | None:
    """Return the nearest `pyproject.toml`, in a folder or above it, up to the root of its repository."""
    for each in (start, *start.parents):
        if (each / "pyproject.toml").is_file():
            return each / "pyproject.toml"
        if (each / ".git").exists():
            break
    return None


def _keep_old(made: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the new values that are not empty, with the keys of the old document that are not made here."""
    kept = {key: value for key, value in old.items() if key not in made}
    return {**{key: value for key, value in made.items() if value not in (None, "", [], {}, False)}, **kept}


def make_server_json(project: Project, old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `server.json` of a project: a PyPI package, which clients start with `uvx NAME`, the URL of
    a running server, or both."""
    if (length := len(project.description)) > 100:
        text = f"The description has {length} characters, and the registry allows 100"
        project.report("error", text, "write a shorter one under [publish] in toolcrib.toml")
    repository = _find_repository(project, old.get("repository", {}))
    made = {
        "$schema": SCHEMA_URL,
        "name": _find_name(project, repository, old),
        "title": project.config.title,
        "description": project.description,
        "version": project.version,
        "repository": repository,
        "websiteUrl": project.url("homepage", "documentation"),
        "packages": _merge(_make_packages(project), old.get("packages", ()), "identifier"),
        "remotes": _merge(_make_remotes(project), old.get("remotes", ()), "url"),
    }
    return _keep_old(made, old)


def _merge(made: Sequence[dict[str, Any]], old: Sequence[Any], key: str) -> list[dict[str, Any]]:
    """Return items with additions made by hand, other remotes, and packages of other registries."""
    known = {each[key]: each for each in old if isinstance(each, dict) and key in each}
    names = [each[key] for each in made]
    others = [
        each for name, each in known.items() if name not in names and each.get("registryType") != "pypi"
    ]
    return [_keep_old(each, known.get(each[key], {})) for each in made] + others


def _find_name(project: Project, repository: Mapping[str, str] | None, old: Mapping[str, Any]) -> str:
    """Return the name in the registry. Warn if the README does not have it, which proves the ownership."""
    readme = project.table.get("readme")
    file = project.root / str(readme.get("file") if isinstance(readme, Mapping) else readme)
    noted = _MCP_NAME.search(file.read_text("utf-8", "replace") if file.is_file() else "")
    name = project.config.publish.name or (noted[1] if noted else None) or old.get("name")
    if name is None and repository and repository["source"] == "github":
        name = f"io.github.{urlsplit(repository['url']).path.split('/')[1]}/{project.name}"
    if name is None or not _NAME.fullmatch(name):
        text = "The server has no name for the registry" if name is None else f"Invalid name: {name!r}"
        project.report("error", text, 'write name = "io.github.OWNER/NAME" under [publish] in toolcrib.toml')
    elif noted is None or noted[1] != name:
        hint = f"the registry looks for it on the page of the package: add <!-- mcp-name: {name} -->"
        project.report("warning", f"The README of the package has no line with 'mcp-name: {name}'", hint)
    return name or ""


def _find_repository(project: Project, old: Mapping[str, Any]) -> dict[str, Any] | None:
    parts = urlsplit(project.repository or "")
    names = parts.path.strip("/").split("/")[:2]
    source = _FORGES.get((parts.hostname or "").removeprefix("www."))
    if source is None or len(names) < 2:
        text = f"The repository is left out: {parts.geturl()}" if parts.path else "No repository is named"
        hint = "write Repository under [project.urls]: a URL of github.com or gitlab.com"
        project.report("warning", text, hint)
        return None
    return _keep_old({"url": f"https://{parts.hostname}/{'/'.join(names)}", "source": source}, old)


def _make_packages(project: Project) -> list[dict[str, Any]]:
    names = {re.sub(r"[-_.]+", "-", name).lower(): name for name in project.table.get("scripts") or ()}
    own = names.get(re.sub(r"[-_.]+", "-", project.name).lower())
    if own is None and project.config.publish.url is None:
        hint = f'add {project.name} = "MODULE:FUNCTION" under [project.scripts], or use --only manifest'
        project.report("error", f"No command for `uvx {project.name}`", hint)
    variables = [
        {
            "name": each.name,
            "description": each.description,
            "isRequired": each.required,
            "isSecret": each.secret,
            "format": None if each.format == "string" else each.format,
            "default": each.default,
            "choices": list(each.choices),
        }
        for each in project.config.publish.environment
    ]
    package = {
        "identifier": own,
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "version": project.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "environmentVariables": [_keep_old(each, {}) for each in variables],
    }
    return [package] if own else []


def _make_remotes(project: Project) -> list[dict[str, Any]]:
    url = project.config.publish.url
    if url is None:
        return []
    if not url.startswith("https://"):
        hint = "write a URL such as https://shop.example.com/mcp"
        project.report("error", f"Others cannot use {url}", hint)
    policy = project.config.policy
    key: dict[str, Any] = {"isRequired": True, "isSecret": True}
    header = {"name": "Authorization", "value": "Bearer {api_key}", **key, "variables": {"api_key": key}}
    headers = {"headers": [header]} if policy and policy.auth and policy.auth.keys else {}
    return [{"type": "streamable-http", "url": url, **headers}]


def make_manifest(
    project: Project, loaded: Loaded, targets: Sequence[Target], words: Targets, old: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a bundle. Its host runs `uv run toolcrib serve --stdio TARGET` in its folder."""
    depends = project.table.get("dependencies") or ()
    if not any(re.match(r"toolcrib\b(?![-_.])", str(each)) for each in depends):
        text = "The project does not depend on toolcrib, which starts the server"
        project.report("error", text, f'add "toolcrib>={__version__}" to dependencies under [project]')
    if not loaded.server.registry:
        project.report("error", "No tools to publish", "toolcrib list shows what the targets hold")
    authors = [
        {key: each[key] for key in ("name", "email") if key in each}
        for each in project.table.get("authors") or ()
        if isinstance(each.get("name"), str)
    ]
    if not authors:
        project.report("error", "Missing author", 'write authors = [{name = "..."}] under [project]')
    served: list[str] = []
    for target in targets:
        path = target.text if target.path is None else project.path_of(target.path)
        served.append(f"{path}:{target.name}" if target.path and target.name else str(path))
        if path is None:
            text = f"{target.path} is not below {project.root}"
            project.report("error", text, "a bundle has only this folder")
    serve = Targets.of(served, words.arguments).words
    entry_point = project.path_of(targets[0].path or project.root / "pyproject.toml")
    icon, variables = project.config.publish.icon, project.config.publish.environment
    launch: dict[str, Any] = {
        "command": "uv",
        "args": ["run", "--no-dev", "--directory", "${__dirname}", "toolcrib", "serve", "--stdio", *serve],
        "env": {each.name: f"${{user_config.{each.name.lower()}}}" for each in variables},
    }
    made = {
        "manifest_version": "0.4",
        "name": project.name,
        "display_name": project.config.title,
        "version": project.version,
        "description": project.description,
        "author": next(iter(authors), None),
        "repository": {"type": "git", "url": project.repository} if project.repository else None,
        "icon": project.path_of(icon) if icon else None,
        "server": {"type": "uv", "entry_point": entry_point, "mcp_config": _keep_old(launch, {})},
        "tools": [
            {"name": tool.name, "description": (tool.definition.description or "").partition("\n")[0]}
            for tool in loaded.server.registry
        ],
        "prompts_generated": len(loaded.server.prompts) > 0,
        "license": project.text("license"),
        "user_config": {each.name.lower(): _make_option(each) for each in variables},
    }
    return _keep_old(made, old)


def _make_option(variable: VariableConfig) -> dict[str, Any]:
    """Return the values that the host asks the user for. An optional value has a default, because hosts pass
    `${user_config.NAME}` on unchanged if there is none."""
    text = variable.description or f"The environment variable {variable.name}"
    default: Any = variable.default or ("false" if variable.format == "boolean" else "")
    with suppress(ValueError):
        default = json.loads(default) if variable.format in ("number", "boolean") else default
    option = {
        "type": "file" if variable.format == "filepath" else variable.format,
        "title": variable.name.replace("_", " ").strip().capitalize(),
        "description": f"{text} (one of {', '.join(variable.choices)})" if variable.choices else text,
        "required": variable.required,
        "sensitive": variable.secret,
    }
    if variable.default is not None or not variable.required:
        return {**_keep_old(option, {}), "default": default}
    return _keep_old(option, {})


def make_ignore_file(project: Project) -> str:
    """Return `.mcpbignore`: our patterns, then the lines of its author, which may take one back with `!`."""
    file = project.root / IGNORE_FILE
    own = file.read_text("utf-8").splitlines() if file.is_file() else []
    patterns = [each for each in [*IGNORED, *sorted(set(_find_private(project)))] if each not in own]
    return "\n".join([*patterns, *own]) + "\n"


def _find_private(project: Project) -> Iterator[str]:
    """Yield patterns for the files of the policy with those beside them, for environments, and for links,
    which mcpb would follow."""
    policy, state = project.config.policy, project.config.state
    named: list[Path | str] = [path] if state and (path := sqlite_path(state)) else []
    if policy:
        audit = policy.audit
        named += [policy.auth.keys] if policy.auth and policy.auth.keys else []
        named += [each for each in (audit.file, audit.key_file, audit.checkpoints) if each] if audit else []
    yield from (f"{_pattern(name)}*" for each in named if (name := project.path_of(Path(each))))
    for folder, folders, files in os.walk(project.root):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        for entry in (Path(folder, name) for name in [*folders, *files]):
            if entry.is_symlink() or (entry / "pyvenv.cfg").exists():
                yield _pattern(entry.relative_to(project.root).as_posix())


def _pattern(path: str) -> str:
    return "/" + re.sub(r"([\\*?\[\]])", r"\\\1", path)

"""`toolcrib bundle`: pack a server as an MCPB bundle, which desktop applications install with one click.

A bundle is a zip with a `manifest.json` (version 0.4) and the files of the project. Its server is of type
`uv`: the host runs `uv run toolcrib serve --stdio TARGET` in the unpacked folder, and uv installs what
`pyproject.toml` depends on. The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from toolcrib import __version__
from toolcrib.cli.load import Loaded, load_for_serving
from toolcrib.cli.options import Command, CommandError, Targets, json_option, named_targets, targets_argument
from toolcrib.cli.output import Terminal
from toolcrib.cli.publication.project import (
    PYPROJECT,
    Project,
    Report,
    collect_variables,
    describe_file,
    find_imports,
    find_project,
    folder_of,
    has_settings,
    place_of,
)
from toolcrib.cli.text import count, shorten_list
from toolcrib.config import VariableConfig
from toolcrib.config.atomic_file import write_file
from toolcrib.config.fields import parse_toml
from toolcrib.errors import ConfigurationError
from toolcrib.sources.targets import Target, parse_target
from toolcrib.tool import Tool

EXAMPLES = """
toolcrib bundle                            the targets of toolcrib.toml
toolcrib bundle shop.py --author Ana       one file
toolcrib bundle shop.py --secret 'SHOP_TOKEN:The token of your shop'
toolcrib bundle -o shop.mcpb --exclude 'data/*' --icon icon.png
"""
MANIFEST = "manifest.json"
MANIFEST_VERSION = "0.4"
REQUIRES_PYTHON = ">=3.11"
FIRST_VERSION = "0.1.0"
_PLATFORMS = ["darwin", "linux", "win32"]
_TYPES = {"string": "string", "number": "number", "boolean": "boolean", "filepath": "file"}
_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can have."""
_PNG = b"\x89PNG\r\n\x1a\n"
_SCRIPT = re.compile(r"^# /// script\s*\n((?:#(?: .*)?\n)+?)# ///\s*$", re.MULTILINE)
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")

SECRETS = (
    ".env", ".env.*", ".envrc", "kubeconfig*", "*.kubeconfig", "*.sqlite*", "*.db", "*.db-*",
    "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.keys.json", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", "credentials",
    "credentials.json", "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
)  # fmt: skip
"""Names of files that usually hold secrets, in lower case."""
NO_SECRETS = (".env.example", ".env.sample", ".env.template")
GENERATED = (
    ".aws", ".gnupg", ".kube", ".ssh",
    ".git*", ".hg", ".svn", ".venv", "venv", "__pycache__", "*.pyc", "*.egg-info", ".eggs", ".tox", ".nox",
    ".*_cache", ".cache", ".hypothesis", ".coverage*", "htmlcov", "node_modules", ".idea", ".vscode",
    ".DS_Store", "Thumbs.db", "*.log", "*.mcpb", ".mcpbignore",
)  # fmt: skip
"""Names of files and folders that a bundle does not need."""
GENERATED_AT_ROOT = ("dist", "build")


@click.command(cls=Command, examples=EXAMPLES)
@targets_argument
@json_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File.  [default: NAME-VERSION.mcpb]")
@click.option("--name", metavar="NAME", help="Name.  [default: of the project or file]")
@click.option("--version", metavar="VERSION", help="Version.  [default: of pyproject.toml, or 0.1.0]")
@click.option("--description", metavar="TEXT", help="What the server does.")
@click.option("--author", metavar="NAME", help="Author.  [default: the first in pyproject.toml]")
@click.option(
    "--env", multiple=True, metavar="NAME[:TEXT]", help="Optional environment variable; repeatable."
)
@click.option("--secret", multiple=True, metavar="NAME[:TEXT]", help="Required secret variable; repeatable.")
@click.option("--icon", type=click.Path(path_type=Path), help="PNG file, best with 512 x 512 pixels.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out these files; repeatable.")
@click.option(
    "--include", multiple=True, metavar="GLOB", help="Take these although they look secret; repeatable."
)
def bundle(
    terminal: Terminal,
    targets: Targets,
    as_json: bool,
    output: Path | None,
    env: Sequence[str],
    secret: Sequence[str],
    icon: Path | None,
    exclude: Sequence[str],
    include: Sequence[str],
    **given: str | None,
) -> int:
    """Pack a server as an MCPB bundle.

    The bundle has the files of the project, or the named file and the modules beside it that it imports, with
    a pyproject.toml that names the packages they need. Environments, caches and files that look like secrets
    are left out, and what .mcpbignore names. Users are asked for the variables of --env, --secret and
    [[publish.environment]] in toolcrib.toml. The host starts it with uv. Exit code 1: not written.

    A TARGET is a Python file, folder, module, module:object or toolcrib.toml.
    """
    if not has_settings(targets):
        raise CommandError(
            "No targets to bundle", "name a file, a folder or a module, or write a toolcrib.toml"
        )
    if output is not None and output.suffix != ".mcpb":
        raise CommandError(f"Not the name of a bundle: {output}", f"use -o {output.with_suffix('.mcpb')}")
    found = [parse_target(target) for target in named_targets(targets)]
    with terminal.log.muted():
        loaded = load_for_serving(targets, terminal)
    tools = loaded.build_tools(terminal)
    project = find_project(targets)
    report = Report([*loaded.errors])
    if not tools and not loaded.errors:
        report.error("There are no tools to bundle", "toolcrib list shows what the targets hold")
    facts = Facts.of(project, found, given, report)
    variables = collect_variables(project.config, env, secret)
    contents = Contents.collect(project, found, exclude, include, report)
    if project.pyproject is None:
        contents.data[PYPROJECT] = make_pyproject(facts, contents, report)
    elif "toolcrib" not in map(_name_of, project.dependencies):
        hint = f'add "toolcrib>={__version__}" to dependencies under [project]'
        report.error(
            "The project does not depend on toolcrib, which starts the server",
            hint,
            describe_file(project.pyproject),
        )
    icons = contents.add_icon(icon or project.config.publish.icon, report)
    server = _make_server(contents, found, targets.arguments, variables)
    manifest = make_manifest(facts, project, server, loaded, variables, icons)
    report.show(terminal)
    if report.errors:
        terminal.message("note", f"No bundle written: {count(len(report.errors), 'problem')}")
        return 1
    contents.data[MANIFEST] = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    file = output or Path(f"{facts.name}-{facts.version}.mcpb")
    packed = contents.pack()
    write_file(file, packed)
    if as_json:
        terminal.json(
            {
                "file": str(file),
                "bytes": len(packed),
                "sha256": hashlib.sha256(packed).hexdigest(),
                "unpacked_bytes": contents.size,
                "files": contents.names,
                "left_out": [{"path": path, "reason": reason} for path, reason in contents.left_out.items()],
                "findings": [finding.to_json() for finding in report.findings],
                "manifest": manifest,
            }
        )
    else:
        _print_summary(file, len(packed), contents, manifest, terminal)
    return 0


def _print_summary(
    file: Path, size: int, contents: Contents, manifest: Mapping[str, Any], terminal: Terminal
) -> None:
    for reason in dict.fromkeys(contents.left_out.values()):
        paths = [
            path
            for path, why in contents.left_out.items()
            if why == reason and not path.endswith("__pycache__/")  # expected by all
        ]
        if paths:
            terminal.message("note", f"left out, {reason}: {shorten_list(paths)}")
    if contents.requirements:
        terminal.message("note", f"{PYPROJECT} made, with {', '.join(contents.requirements)}")
    files = (
        f"{count(len(contents.names), 'file')}, {_format_size(size)} ({_format_size(contents.size)} unpacked)"
    )
    text = f"{file} written: {count(len(manifest['tools']), 'tool')}, {files}"
    terminal.message("note", text, "open it with Claude Desktop, or another host that has uv")


def _format_size(size: int) -> str:
    return (
        f"{size} bytes" if size < 1_000 else f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
    )


# --- the files ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Contents:
    """The files of a bundle: those below `root`, by their path in the bundle, and those made here."""

    root: Path
    files: dict[str, Path] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Why a file or folder is not in the bundle, by its path."""
    requirements: list[str] = field(default_factory=list)
    """What a generated pyproject.toml depends on."""

    @classmethod
    def collect(
        cls,
        project: Project,
        targets: Sequence[Target],
        exclude: Sequence[str],
        include: Sequence[str],
        report: Report,
    ) -> Contents:
        """Return the files of the project, or of the targets where there is no `pyproject.toml`."""
        contents = cls(project.root if project.pyproject is not None else _common_folder(targets))
        rules = Rules(contents.root, project, _read_ignored(contents.root, exclude), include)
        if project.pyproject is not None:
            contents.add_folder(contents.root, rules)
        else:
            contents._add_targets(targets, rules)
        for target in targets:
            if target.path is None and project.pyproject is None:
                text = f"{target.text} is not a file, and there is no {PYPROJECT} that names its package"
                report.error(text, f"name the file of the module, or write a {PYPROJECT}")
            elif (
                target.path is not None
                and target.kind != "folder"
                and contents.path_of(target.path) not in contents.files
            ):
                reason = contents.left_out.get(
                    contents.path_of(target.path) or "", f"not below {contents.root}"
                )
                report.error(
                    f"{target.path} is not in the bundle: {reason}", "use --include, or another target"
                )
        return contents

    def _add_targets(self, targets: Sequence[Target], rules: Rules) -> None:
        for target in targets:
            if target.kind == "settings":
                self.add_folder(self.root, rules)
            elif target.kind == "folder" and target.path is not None:
                self.add_folder(Path(os.path.abspath(target.path)), rules)
            elif target.path is not None:
                self._add_module(Path(os.path.abspath(target.path)), rules)

    def _add_module(self, file: Path, rules: Rules) -> None:
        """Add a file, and the modules beside it that it imports."""
        name = self.path_of(file)
        if name is None or name in self.files or not self._add_file(file, rules):
            return
        for module in sorted(find_imports(file)) if file.suffix == ".py" else ():
            beside, package = file.with_name(f"{module}.py"), file.with_name(module)
            if beside.is_file():
                self._add_module(beside, rules)
            elif (package / "__init__.py").is_file():
                self.add_folder(package, rules)

    def add_folder(self, folder: Path, rules: Rules) -> None:
        """Add the files below a folder, in a fixed order."""
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                if reason := rules.reason_against(path):
                    self.left_out[f"{path.relative_to(self.root).as_posix()}/"] = reason
                else:
                    self.add_folder(path, rules)
            else:
                self._add_file(path, rules)

    def _add_file(self, path: Path, rules: Rules) -> bool:
        name = path.relative_to(self.root).as_posix()
        if name == MANIFEST:
            self.left_out[name] = "made anew"
            return False
        if reason := rules.reason_against(path):
            self.left_out[name] = reason
            return False
        self.files[name] = path
        return True

    def path_of(self, path: Path) -> str | None:
        """Return the path of a file in the bundle, or None where it is elsewhere."""
        full = Path(os.path.abspath(path))
        return full.relative_to(self.root).as_posix() if full.is_relative_to(self.root) else None

    @property
    def names(self) -> list[str]:
        return sorted([*self.files, *self.data])

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files.values()) + sum(map(len, self.data.values()))

    def add_icon(self, icon: Path | None, report: Report) -> dict[str, Any]:
        """Add an icon, and return the keys of the manifest for it."""
        if icon is None:
            return {}
        try:
            head = icon.read_bytes()[:24]
        except OSError as error:
            report.error(f"The icon {icon} cannot be read: {error.strerror}", "name a PNG file with --icon")
            return {}
        if not head.startswith(_PNG) or len(head) < 24:
            report.error(f"The icon {icon} is not a PNG file", "convert it: hosts show PNG only")
            return {}
        width, height = struct.unpack(">II", head[16:24])
        name = self.path_of(icon)
        if name is None or name not in self.files:
            name = "icon.png"
            self.files[name] = icon
        return {"icon": name, "icons": [{"src": name, "size": f"{width}x{height}"}]}

    def pack(self) -> bytes:
        """Return the zip. The same files give the same bytes: names are sorted, times and modes are fixed."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            # The manifest comes first: some hosts look no further.
            for name in sorted(self.names, key=lambda name: (name != MANIFEST, name)):
                path = self.files.get(name)
                info = zipfile.ZipInfo(name, _TIME)
                info.create_system = 3  # Unix, whose modes these are
                is_program = path is not None and os.access(path, os.X_OK) and os.name != "nt"
                info.external_attr = (0o100755 if is_program else 0o100644) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(
                    info, self.data[name] if name in self.data else (path or Path()).read_bytes()
                )
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Rules:
    """Decides which files are left out."""

    root: Path
    project: Project
    exclude: Sequence[str]
    include: Sequence[str]

    def reason_against(self, path: Path) -> str | None:
        """Return why a file or folder is left out, or None where it is taken."""
        name = path.relative_to(self.root).as_posix()
        if "\\" in name:  # a folder on Windows
            return "a backslash in its name"
        if _matches(name, self.include):
            return None
        if _matches(name, self.exclude):
            return "excluded"
        if path.is_symlink():
            return "link"
        if not path.is_dir() and self._is_secret(path):
            return "may be secret"
        is_environment = (path / "pyvenv.cfg").exists()
        if is_environment or _is_named(path.name, GENERATED) or name in GENERATED_AT_ROOT:
            return "not needed"
        return None

    def _is_secret(self, path: Path) -> bool:
        if _is_named(path.name, NO_SECRETS):
            return False
        policy = self.project.config.policy
        tasks = self.project.config.tasks
        own: list[Path | str | None] = [] if tasks is None else [tasks.file]
        own += [] if policy is None else [policy.store]
        if policy is not None and policy.auth is not None:
            own.append(policy.auth.keys)
        if policy is not None and policy.audit is not None:  # beside it are its key and its checkpoints
            own += [policy.audit.file, policy.audit.key_file, policy.audit.checkpoints]
        full = os.path.realpath(path)  # what is beside a database begins with its name
        is_own = any(each is not None and full.startswith(os.path.realpath(each)) for each in own)
        return is_own or _is_named(path.name.lower(), SECRETS)


def _is_named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a path is one of the patterns: by its whole path, its name, or a folder above it."""
    last = name.rpartition("/")[2]
    for given in patterns:
        pattern = given.removeprefix("./").strip("/")
        if fnmatchcase(name, pattern) or fnmatchcase(last, pattern) or name.startswith(f"{pattern}/"):
            return True
    return False


def _read_ignored(root: Path, exclude: Sequence[str]) -> list[str]:
    """Return the patterns of the options and of `.mcpbignore`."""
    file = root / ".mcpbignore"
    lines = file.read_text("utf-8", errors="replace").splitlines() if file.is_file() else []
    own = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [*exclude, *own]


def _common_folder(targets: Sequence[Target]) -> Path:
    """Return the folder that holds all targets; a folder that is a target keeps its name in the bundle."""
    folders = [folder_of(each).parent if each.kind == "folder" else folder_of(each) for each in targets]
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # on different drives
        return folders[0]


# --- the project -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What a manifest says about a project."""

    name: str
    version: str
    description: str
    author: Mapping[str, str]

    @classmethod
    def of(
        cls, project: Project, targets: Sequence[Target], given: Mapping[str, str | None], report: Report
    ) -> Facts:
        first = targets[0]
        stem = first.path.resolve().stem if first.path is not None else first.module or first.text
        if first.kind == "settings":
            stem = folder_of(first).name
        name = given["name"] or project.name or project.config.name or stem
        version = given["version"] or project.version or project.config.version
        if version is None and project.pyproject is not None:
            report.error(
                "The version is unknown", f"write {place_of(project, 'version')}, or use --version 1.2.3"
            )
        if version is not None and not _VERSION.fullmatch(version):
            report.error(f"Not a version: {version!r:.80}", "use letters, digits and . + - _, such as 1.2.3")
        description = (
            given["description"]
            or project.config.publish.description
            or project.text("description")
            or _first_line(first)
        )
        if not description:
            hint = f"write {place_of(project, 'description')}, or use --description TEXT"
            report.error("There is no description", hint)
        author = {"name": given["author"]} if given["author"] else project.author
        if not author:
            key = "author" if project.pyproject is None else 'authors = [{name = "..."}]'
            report.error("There is no author", f"write {place_of(project, key)}, or use --author NAME")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "server"
        return cls(name, version or FIRST_VERSION, description or "", author or {})


def _first_line(target: Target) -> str | None:
    """Return the first line of a file's docstring."""
    if target.path is None or target.path.suffix != ".py":
        return None
    import ast  # delayed: most projects have a description

    try:
        text = ast.get_docstring(ast.parse(target.path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None
    return text.partition("\n")[0].strip() or None if text else None


def make_pyproject(facts: Facts, contents: Contents, report: Report) -> bytes:
    """Return a `pyproject.toml` for files that have none, with the packages that they import or declare."""
    declared, python = _read_script_tables(contents, report)
    found = declared if declared is not None else [*_find_requirements(contents, report)]
    own = [] if any(_name_of(each) == "toolcrib" for each in found) else [f"toolcrib>={__version__}"]
    contents.requirements = [*own, *found]
    lines = [
        "[project]",
        f"name = {json.dumps(facts.name)}",
        f"version = {json.dumps(facts.version)}",
        f"requires-python = {json.dumps(python or REQUIRES_PYTHON)}",
        "dependencies = [",
        *(f"    {json.dumps(each)}," for each in contents.requirements),
        "]",
        "",
        "[tool.uv]",
        "package = false",
        "",
    ]
    return "\n".join(lines).encode()


def _read_script_tables(contents: Contents, report: Report) -> tuple[list[str] | None, str | None]:
    """Return the packages and the Python version in `# /// script` comments (PEP 723), or None."""
    packages: list[str] | None = None
    python = None
    for name, path in contents.files.items():
        if not name.endswith(".py") or not (
            block := _SCRIPT.search(path.read_text("utf-8", errors="replace"))
        ):
            continue
        try:
            table = parse_toml("\n".join(line[2:] for line in block[1].splitlines()), str(path))
        except ConfigurationError as error:
            report.error(f"The script comment in {name} is {error.message}", error.hint)
            continue
        found = table.get("dependencies", [])
        packages = [*(packages or []), *(each for each in found if isinstance(each, str))]
        python = table.get("requires-python", python)
    return packages, python if isinstance(python, str) else None


def _find_requirements(contents: Contents, report: Report) -> Iterator[str]:
    """Yield the installed packages that the files import, with their versions as lower bounds."""
    files = [path for name, path in contents.files.items() if name.endswith(".py")]
    own = {part for name in contents.files for part in (name.partition("/")[0], Path(name).stem)}
    own |= {part for name in contents.files for part in Path(name).parent.parts}
    wanted = {module for path in files for module in find_imports(path)}
    wanted -= {*sys.stdlib_module_names, "toolcrib", *own}
    known = importlib.metadata.packages_distributions() if wanted else {}
    packages = {known[module][0] for module in wanted if module in known}
    for module in sorted(wanted - known.keys()):
        text = f"No installed package has the module '{module}': the bundle will not find it either"
        report.warn(text, "install the package, or name it in a `# /// script` comment (PEP 723)")
    for package in sorted(packages, key=str.lower):
        yield f"{package}>={importlib.metadata.version(package)}"


def _name_of(requirement: str) -> str:
    """Return the name of the package in a requirement such as `toolcrib[yaml]>=0.1`."""
    found = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


# --- the manifest ------------------------------------------------------------------------------------


def _make_server(
    contents: Contents,
    targets: Sequence[Target],
    arguments: Sequence[str],
    variables: Sequence[VariableConfig],
) -> dict[str, Any]:
    """Return how the host starts the server."""
    words: list[str] = []
    for target in targets:
        path = contents.path_of(target.path) if target.path is not None else None
        words.append(target.text if path is None else f"{path}:{target.name}" if target.name else path)
    serve = Targets.of(words, arguments).words
    first = targets[0]
    entry_point = (
        contents.path_of(first.path) if first.path is not None else _file_of(first, contents)
    ) or PYPROJECT
    config: dict[str, Any] = {
        "command": "uv",
        "args": ["run", "--no-dev", "--directory", "${__dirname}", "toolcrib", "serve", "--stdio", *serve],
    }
    if variables:
        config["env"] = {each.name: f"${{user_config.{each.name.lower()}}}" for each in variables}
    return {"type": "uv", "entry_point": entry_point, "mcp_config": config}


def _file_of(target: Target, contents: Contents) -> str | None:
    """Return the file of a module that is loaded, where it is in the bundle."""
    file = getattr(sys.modules.get(target.module or ""), "__file__", None)
    name = contents.path_of(Path(file)) if file else None
    return name if name in contents.files else None


def make_manifest(
    facts: Facts,
    project: Project,
    server: Mapping[str, Any],
    loaded: Loaded,
    variables: Sequence[VariableConfig],
    icons: Mapping[str, Any],
) -> dict[str, Any]:
    urls = project.urls
    prompts = [_describe_prompt(each) for each in loaded.server.prompts]
    repository = project.repository
    keywords = project.table.get("keywords")
    made: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "name": facts.name,
        "display_name": project.config.title,
        "version": facts.version,
        "description": facts.description,
        "author": dict(facts.author),
        "repository": {"type": "git", "url": repository.removeprefix("git+")} if repository else None,
        "homepage": urls.get("homepage") or urls.get("home"),
        "documentation": urls.get("documentation") or urls.get("docs"),
        "support": urls.get("issues") or urls.get("bug tracker") or urls.get("support"),
        **icons,
        "server": dict(server),
        "tools": [
            {"name": tool.name, "description": _summarize(tool.definition.description)}
            for tool in loaded.server.registry
        ],
        "tools_generated": loaded.server.dynamic or None,
        "prompts": prompts,
        "prompts_generated": bool(prompts) or None,
        "keywords": [each for each in keywords if isinstance(each, str)]
        if isinstance(keywords, list)
        else None,
        "license": project.license,
        "compatibility": {
            "platforms": _PLATFORMS,
            "runtimes": {"python": project.text("requires-python") or REQUIRES_PYTHON},
        },
        "user_config": {each.name.lower(): _make_option(each) for each in variables},
    }
    return {key: value for key, value in made.items() if value}


def _summarize(description: str | None) -> str:
    """Return the first paragraph of a description on one line."""
    return " ".join((description or "").strip().partition("\n\n")[0].split())


def _describe_prompt(prompt: Tool) -> dict[str, Any]:
    """Return a prompt for the manifest; its text is made by the server, as `prompts_generated` says."""
    summary = _summarize(prompt.definition.description)
    arguments = list(prompt.arguments.schema.get("properties", {}))
    made = {
        "name": prompt.name,
        "description": summary,
        "arguments": arguments,
        "text": summary or prompt.name,
    }
    return {key: value for key, value in made.items() if value}


def _make_option(variable: VariableConfig) -> dict[str, Any]:
    """Return what the host asks the user for. An optional value has a default, because hosts pass
    `${user_config.NAME}` on unchanged where there is none."""
    title = variable.name.replace("_", " ").strip().capitalize()
    text = variable.description or f"The environment variable {variable.name}"
    if variable.choices:
        text = f"{text} (one of {', '.join(variable.choices)})"
    option: dict[str, Any] = {"type": _TYPES[variable.format], "title": title, "description": text}
    if variable.required:
        option["required"] = True
    if variable.secret:
        option["sensitive"] = True
    if variable.default is not None or not variable.required:
        option["default"] = _convert(variable)
    return option


def _convert(variable: VariableConfig) -> Any:
    text = variable.default or ""
    if variable.format == "boolean":
        return text.lower() in ("1", "true", "yes", "on")
    if variable.format == "number" and re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text) if "." in text else int(text)
    return text

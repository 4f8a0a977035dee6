"""Build the catalog that is handed to model providers: a hash, a list for prompts, and function schemas.

`build_catalog` returns a dict with the keys `version`, `hash`, `count`, `promptList` and
`functionSchema`, of files that are read and never run, or of a live registry. An invalid tool is left
out, with a warning in the log and in `catalog_findings`; it never hides the others. `get_catalog_cached`
returns the same from a file as long as building would give it.

A catalog of files depends on the bytes of every file that was or could have been read, which are all Python
files below the folders that the targets import from, and on which of them the targets name. Files are known
by the SHA-1 of their bytes, never by their dates: dates can be set, copied and shared.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from functools import cache as remember
from pathlib import Path
from typing import Any

from toolcrib import __version__
from toolcrib.catalog.catalog import Catalog, open_catalog
from toolcrib.component import Component
from toolcrib.config import FILE_NAME, Config, load_config, load_default_config, switches_from
from toolcrib.config.atomic_file import read_file, write_file
from toolcrib.errors import (
    ConfigurationError,
    DefinitionError,
    Finding,
    InvalidSchemaError,
    InvalidToolError,
    Location,
    SourceError,
)
from toolcrib.registry.registry import ToolRegistry
from toolcrib.schema.docstrings import HEADERS, clean_lines, find_block_end, indent_of, trim
from toolcrib.schema.parameters import docstring_of
from toolcrib.sources import collect
from toolcrib.sources.descriptors import descriptor_files, is_descriptor
from toolcrib.sources.loading import find_import_root, find_module_file, find_python_files, is_skipped_folder
from toolcrib.sources.objects import registry_of
from toolcrib.sources.targets import LOCK_NAME, Target, is_settings, parse_target
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

logger = logging.getLogger("toolcrib")

ANY_TYPE = ("string", "number", "boolean", "object", "array", "null")
"""The types of a parameter whose type is unknown."""

_MAX_WARNINGS = 20
_NOT_A_TYPE = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
PathName = str | os.PathLike[str]
Facts = dict[str, Any]
"""What a catalog depends on, as it is in a cache file."""
Adapter = Any
"""A path, several, a registry, a server, tools, or None."""
DEFAULT_ADAPTER = Path("bridges/mcp_adapter.py")
_SUBSTITUTE_SUFFIXES = (".tools.json", ".tools.yaml", ".tools.yml")
"""How the name of a descriptor ends that is used instead of a missing file of the same stem."""


def build_catalog(adapter: Adapter = None, *, descriptor: PathName | None = None) -> dict[str, Any]:
    """Build the catalog of an adapter: files, folders, a descriptor, a registry, a server, or tools.

    Without an adapter, the targets of the `toolcrib.toml` in the current folder are used, or else
    `bridges/mcp_adapter.py`. Files are read, not imported. If the adapter is missing, the `descriptor` is
    used instead, or one next to it: `mcp_adapter.tools.json` for `mcp_adapter.py`, or `toolcrib.lock`.

    Raises:
        SourceError: There is neither an adapter nor a descriptor
    """
    document, findings, _ = build(find_inputs(adapter, descriptor))
    log_findings(findings)
    return document


def catalog_findings(adapter: Adapter = None, *, descriptor: PathName | None = None) -> list[Finding]:
    """Return the findings about the tools of an adapter, including those that its catalog leaves out."""
    return build(find_inputs(adapter, descriptor))[1]


def build(inputs: FileInputs | LiveInputs) -> tuple[dict[str, Any], list[Finding], Facts | None]:
    """Return the catalog of some inputs, the findings about its tools, and what it depends on."""
    catalog, digest, facts = inputs.read()
    findings = list(catalog.findings)
    tools: list[Component] = []
    schemas: list[dict[str, Any]] = []
    for tool in catalog.tools:
        try:
            schemas.append(function_schema(tool))
        except DefinitionError as error:
            findings.append(error.finding)
        else:
            findings += tool.findings
            tools.append(tool)
    if not digest:
        definitions = codec.canonical([tool.definition.to_wire() for tool in tools])
        digest = hashlib.sha1(definitions, usedforsecurity=False).hexdigest()
    document = {
        "version": digest[:12],
        "hash": digest,
        "count": len(tools),
        "promptList": "\n".join(map(prompt_lines, tools)),
        "functionSchema": schemas,
    }
    # Encoded and decoded: the same as from a cache, and nothing is shared with the tools.
    return codec.decode(codec.encode(document)), list(dict.fromkeys(findings)), facts


def log_findings(findings: Iterable[Finding]) -> None:
    """Log the tools that a catalog leaves out and problems of its sources, but nothing about tools in it."""
    serious = [
        finding
        for finding in findings
        if finding.level == "error" or (finding.level == "warning" and finding.tool is None)
    ]
    for finding in serious[:_MAX_WARNINGS]:
        logger.warning("catalog: %s", finding)
    if len(serious) > _MAX_WARNINGS:
        logger.warning("catalog: %d more; see catalog_findings()", len(serious) - _MAX_WARNINGS)


# --- live tools ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class LiveInputs:
    """Tools that exist already, one by one or in a registry."""

    source: Any

    def read(self) -> tuple[Catalog, str | None, Facts]:
        """Return the tools that a registry publishes, or would publish: the newest of each name."""
        registry, findings = registry_of(self.source), list[Finding]()
        if registry is None:
            registry, batch = ToolRegistry(), collect(self.source)
            findings = [*registry.add_all(batch.tools).findings, *batch.findings]
        return Catalog(list(registry), findings), None, {"asked": "registry"}


# --- files --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file or folder. `text` is the target for the scan."""

    text: str
    path: Path
    is_descriptor: bool = False

    def files(self) -> list[Path]:
        """Return the files that the target names now, without those that they import."""
        if not self.path.is_dir():
            return [self.path]
        return list(descriptor_files(self.path)) if self.is_descriptor else find_python_files(self.path)


@dataclass(slots=True)
class FileInputs:
    """Files and folders, with their settings. `findings` are about the choice of files."""

    targets: tuple[FileTarget, ...]
    config: Config
    findings: list[Finding] = field(default_factory=list)

    @property
    def key(self) -> dict[str, Any]:
        """What identifies the inputs, apart from the content of files."""
        return {
            "targets": [
                [target.text, os.path.abspath(target.path), os.path.realpath(target.path)]
                for target in self.targets
            ],
            "switches": dict(sorted(self.config.switches.items())),
            "config": None if self.config.file is None else os.path.abspath(self.config.file),
        }

    def named_files(self) -> list[str]:
        """Return every file that the targets name now, and the one with the settings."""
        files = [file for target in self.targets for file in target.files()]
        settings = [] if self.config.file is None else [self.config.file]
        return sorted({os.path.abspath(file) for file in (*files, *settings)})

    def find_sources(self, named: Iterable[str]) -> set[str] | None:
        """Return every file that reading may depend on; None if there are too many to look through."""
        found = find_sources(named, [target.path for target in self.targets if target.path.is_dir()])
        return None if found is None else found.union(named)

    def read(self) -> tuple[Catalog, str, Facts | None]:
        """Return the catalog, its hash, and the files that the targets name, and all that were or could have
        been read, with their hashes; None for these if something changed meanwhile, or they are too many."""
        named = self.named_files()
        sources = self.find_sources(named)
        before = hash_files(named if sources is None else sources)
        targets = [target.text for target in self.targets]
        catalog = open_catalog(targets if self.config.file is None else [str(self.config.file)], "static")
        catalog.findings[:0] = self.findings
        files = hash_files([*before, *catalog.files, *catalog.read])
        is_same = before.items() <= files.items() and self.named_files() == named
        facts = {"asked": self.key, "named": named, "files": files}
        return catalog, self._hash(files), facts if is_same and sources is not None else None

    def _hash(self, hashes: Mapping[str, str]) -> str:
        """Return the SHA-1 of a single file, or of the sorted relative names and hashes of several."""
        files = [os.path.abspath(file) for target in self.targets for file in target.files()]
        if len(self.targets) == 1 and not self.targets[0].path.is_dir():
            return hashes.get(files[0], "")
        folders = [
            os.path.abspath(target.path if target.path.is_dir() else target.path.parent)
            for target in self.targets
        ]
        base = os.path.commonpath(folders)
        lines = {f"{Path(os.path.relpath(file, base)).as_posix()} {hashes.get(file, '')}\n" for file in files}
        text = "".join(sorted(lines)).encode("utf-8", "surrogateescape")
        return hashlib.sha1(text, usedforsecurity=False).hexdigest()


# --- adapters -----------------------------------------------------------------------------------------


def find_inputs(adapter: Adapter = None, descriptor: PathName | None = None) -> FileInputs | LiveInputs:
    """Return the inputs of an adapter. Raise SourceError if it, and a substitute, is missing."""
    settings = Config(switches=switches_from(os.environ))
    if adapter is None:
        settings = load_default_config()
        adapter = list(settings.targets) or DEFAULT_ADAPTER
    if isinstance(adapter, str | os.PathLike):
        adapter = [adapter]
    if isinstance(adapter, Iterator | KeysView | ValuesView):
        adapter = list(adapter)
    if not isinstance(adapter, list | tuple | set | frozenset):
        return LiveInputs(adapter)
    if not adapter:
        raise SourceError("The list of adapters is empty", hint="name a file: build_catalog('tools.py')")
    are_paths = [isinstance(item, str | os.PathLike) for item in adapter]
    if not all(are_paths):
        if any(are_paths):
            raise InvalidToolError("An adapter is files or tools, not both", hint="build two catalogs")
        if any(isinstance(item, list | tuple | set | frozenset) for item in adapter):
            raise InvalidToolError("An adapter is a flat list of files or of tools")
        return LiveInputs(adapter)
    texts = [os.fspath(item) for item in adapter]
    if any(os.path.isfile(text) and is_settings(text) for text in texts):
        if len(texts) > 1:
            message = "cannot be combined with other adapters"
            raise ConfigurationError(message, file=FILE_NAME, hint="add them to its targets")
        settings = load_config(Path(texts[0]), os.environ)
        texts = list(settings.targets)
        if not texts:
            raise ConfigurationError("must not be empty", file=str(settings.file), key="server.targets")
    return _find_files(texts, settings, descriptor)


def _find_files(texts: Iterable[str], settings: Config, descriptor: PathName | None) -> FileInputs:
    """Find the files of targets. If settings name several, the scan reports those that are missing."""
    targets: list[FileTarget] = []
    missing: list[FileTarget] = []
    findings: list[Finding] = []
    for text in texts:
        parsed = parse_target(text)
        path = _find_path(parsed, settings)
        target = FileTarget(text, path)
        if os.path.exists(path) and os.access(path, os.R_OK):
            is_known = parsed.kind in ("descriptor", "folder", "file")
            target = FileTarget(text, path, parsed.kind == "descriptor" if is_known else is_descriptor(path))
        elif settings.file is None and (substitute := _find_substitute(path, descriptor)) is not None:
            target = FileTarget(str(substitute), substitute, True)
            message = f"{path} is missing: {substitute} is used instead"
            findings.append(Finding("descriptor-used", "warning", message, file=str(substitute)))
        else:
            missing.append(target)
        targets.append(target)
    if missing and (settings.file is None or len(missing) == len(targets)):
        text, path = missing[0].text, missing[0].path
        descriptor_name = f"{path.stem}{_SUBSTITUTE_SUFFIXES[0]}"
        raise SourceError(
            f"{path} cannot be read" if os.path.exists(path) else f"There is no file or module {text}",
            source=Location(str(path)),
            hint=f"name one: build_catalog('tools.py'), or describe it in {descriptor_name}",
        )
    return FileInputs(tuple(dict.fromkeys(targets)), settings, findings)


def _find_path(target: Target, settings: Config) -> Path:
    if target.path is not None or not target.module:
        return target.path or Path(target.text)
    if os.path.exists(target.module) or not target.module.replace(".", "").isidentifier():
        return Path(target.module)
    folders = [] if settings.file is None else [str(settings.file.resolve().parent)]
    found = find_module_file(target.module, folders)
    if found is None:
        return Path(target.module)
    return found.parent if found.name == "__init__.py" else found


def _find_substitute(path: Path, descriptor: PathName | None) -> Path | None:
    """Return the given descriptor, or one next to the missing adapter."""
    if descriptor is not None:
        return Path(descriptor)
    near = [path.with_name(f"{path.stem}{suffix}") for suffix in _SUBSTITUTE_SUFFIXES] if path.name else []
    near += [path.with_name(LOCK_NAME)] if path.name else []
    near += [Path(LOCK_NAME)] if path == DEFAULT_ADAPTER else []
    return next((file for file in near if file.is_file()), None)


# --- hashes -------------------------------------------------------------------------------------------


def hash_files(paths: Iterable[str | Path]) -> dict[str, str]:
    """Return the SHA-1 of every file by its absolute path; "" for one that cannot be read."""
    return {os.path.abspath(path): hash_file(path) for path in paths}


def hash_file(path: str | Path) -> str:
    """Return the SHA-1 of a regular file, "" for anything else."""
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
    except (OSError, ValueError):  # ValueError: not a valid name
        return ""


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


# --- the files that a scan may read -------------------------------------------------------------------

MAX_SOURCES = 5_000
"""The number of folders, and of files in them, up to which a catalog is cached."""


def find_sources(files: Iterable[str], folders: Iterable[Path]) -> set[str] | None:
    """Return every Python file that scanning these may lead to: those below the folders they import from.

    None if there are too many to look through. Links are followed: imports begin where a file really is.
    """
    sources = [file for file in files if file.endswith(".py")]
    starts = {os.path.dirname(file) for file in sources} | {os.path.abspath(folder) for folder in folders}
    starts |= {os.path.dirname(os.path.realpath(file)) for file in sources if os.path.islink(file)}
    starts |= {os.path.realpath(start) for start in starts}
    roots = starts | {str(find_import_root(Path(start, "_.py"))[0]) for start in starts}
    found: set[str] = set()
    visited: set[str] = set()
    for root in sorted(roots):
        for folder, inner, names in os.walk(root, followlinks=True):
            if folder in visited:  # below another root
                inner.clear()
                continue
            visited.add(folder)
            if len(visited) > MAX_SOURCES or len(found) > MAX_SOURCES:
                return None
            inner[:] = [
                name
                for name in inner
                if not is_skipped_folder(name) and not _leads_back(os.path.join(folder, name))
            ]
            found.update(os.path.join(folder, name) for name in names if name.endswith(".py"))
    return found


def _leads_back(folder: str) -> bool:
    """Tell whether a folder is a link to one that it is in."""
    if not os.path.islink(folder):
        return False
    return Path(os.path.realpath(os.path.dirname(folder))).is_relative_to(os.path.realpath(folder))


# --- one tool -----------------------------------------------------------------------------------------


def prompt_lines(tool: Component) -> str:
    """Return a tool as text for a prompt: `- name: description`, and `  e.g. ...` for each example."""
    lines = [f"- {tool.name}: {first_line(tool)}".rstrip()]
    lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
    return "\n".join(lines)


def first_line(tool: Component) -> str:
    """Return the first line of the description that the author wrote."""
    for text in (_written_description(tool), tool.definition.description):
        lines = trim(clean_lines(text))
        if lines and lines[0] not in HEADERS:
            return lines[0].strip()
    return ""


def examples_of(tool: Component) -> list[str]:
    """Return the examples in a tool's description, and in its docstring if that is another text."""
    found = find_examples(_written_description(tool))
    if tool.options.description is not None:
        found += find_examples(docstring_of(tool.info.handler))
    return list(dict.fromkeys(found))


def _written_description(tool: Component) -> str:
    given = tool.options.description
    return given if given is not None else docstring_of(tool.info.handler) or tool.definition.description


def function_schema(tool: Component) -> dict[str, Any]:
    """Return a tool in the format of function calling. Raise DefinitionError if its schema is invalid."""
    schema = tool.definition.input_schema
    properties = {name: _with_type(item) for name, item in schema.get("properties", {}).items()}
    required = list(schema.get("required", ()))
    parameters = {"type": "object", "properties": properties}
    if required or "draft-04" not in str(schema.get("$schema")):  # draft 4 refuses an empty list
        parameters["required"] = required
    parameters |= {key: item for key, item in schema.items() if key not in ("type", "properties", "required")}
    try:
        Validator(parameters, trusted=True)  # its size was checked when the tool was built
    except InvalidSchemaError as error:
        raise InvalidSchemaError(
            f"The input schema of tool '{tool.name}' is invalid: {error}",
            tool=tool.name,
            source=tool.source,
            hint=error.hint,
        ) from None
    return {"name": tool.name, "description": first_line(tool), "parameters": parameters}


def _with_type(schema: Any) -> Any:
    """Return the schema of a parameter; one without a type names all of them."""
    if schema is True:
        return {"type": list(ANY_TYPE)}
    if not isinstance(schema, Mapping) or not schema.keys() <= _NOT_A_TYPE:
        return schema
    return {"type": list(ANY_TYPE), **schema}


# --- examples in docstrings ---------------------------------------------------------------------------

_HEADING = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?)::?(?!:)\s*+(.*)")
_TITLE = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?):?")
_UNDERLINE = re.compile(r" *+--+")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)]) +")
_PROMPT = ">>>"
_FENCES = ("```", "~~~")
_CLOSING = (")", "]", "}", '"""', "'''")


def find_examples(text: str | None) -> list[str]:
    """Return what follows `Example:` or `Ejemplo:`, on its line and indented below it.

    A heading in the singular has one example, however long; `Examples:` and `Ejemplos:` may have several.
    """
    if not text or ("xample" not in text and "jemplo" not in text):
        return []
    lines = clean_lines(text)
    found: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        following = lines[number] if number < len(lines) else ""
        first = ""
        if match := _HEADING.fullmatch(line):
            first, end = match[2], find_block_end(lines, number, indent_of(line))
        elif (match := _TITLE.fullmatch(line)) and _UNDERLINE.fullmatch(following):
            number += 1
            underlined = (at for at in range(number, len(lines) - 1) if _UNDERLINE.fullmatch(lines[at + 1]))
            end = next(filter(lines.__getitem__, underlined), len(lines))
        else:
            continue
        below = _dedent(trim(lines[number:end]))
        if match[1]:
            found += [*([first] if first else []), *_split_examples(below)]
        elif first or below:
            found.append("\n".join([first, *below] if first else below))
        number = end
    return found


def _dedent(block: list[str]) -> list[str]:
    margin = min((indent_of(line) for line in block if line), default=0)
    return [line[margin:] for line in block]


def _split_examples(block: list[str]) -> list[str]:
    """Split a block into examples: by bullets, prompts, empty lines, or else lines. Fenced code is one."""
    if any(line.startswith(_FENCES) for line in block):
        return ["\n".join(block)]
    if any(_BULLET.match(line) for line in block):
        starts = [_BULLET.match(line) is not None for line in block]
        block = [_BULLET.sub("", line, count=1) for line in block]
    elif any(line.startswith(_PROMPT) for line in block):
        previous = ["", *block]
        starts = [
            line.startswith(_PROMPT) and not before.startswith((_PROMPT, "..."))
            for line, before in zip(block, previous, strict=False)
        ]
    elif "" in block:
        starts = [
            not before and indent_of(line) == 0 for before, line in zip(["x", *block], block, strict=False)
        ]
    else:
        starts = [indent_of(line) == 0 and not line.startswith(_CLOSING) for line in block]
    found: list[list[str]] = []
    for line, is_start in zip(block, starts, strict=True):
        if is_start or not found:
            found.append([])
        found[-1].append(line)
    for number, part in enumerate(found):
        first, *rest = trim(part) or [""]
        is_indented = all(line[:1] in ("", " ") for line in rest)  # below a bullet
        found[number] = [first, *(_dedent(rest) if is_indented else rest)]
    return [text for part in found if (text := "\n".join(part))]


# --- the cache ----------------------------------------------------------------------------------------
#
# The file is used if the same adapter was asked for, by the same versions, and every file has the same bytes.
# It is a JSON document with the five keys of a catalog; a sixth key, `cache`, has its inputs and ends in a
# checksum of everything before it, so that a damaged file is not used. Problems with the file or its folder
# are never errors: the catalog is built instead.

DEFAULT_CACHE = ".cache/tool_catalog.json"
FORMAT = 1
"""Increase it when the catalog of the same files changes."""
MAX_BYTES = 64 * 1024 * 1024


def get_catalog_cached(
    adapter: Adapter = None, cache: PathName | None = DEFAULT_CACHE, *, descriptor: PathName | None = None
) -> dict[str, Any]:
    """Return the catalog of an adapter, as `build_catalog` does, from the cache if that is still valid.

    Without a `cache`, the `toolcrib.toml` of the current folder may name one under `[catalog]`.
    """
    inputs = find_inputs(adapter, descriptor)
    configured = load_default_config().cache if cache in (None, DEFAULT_CACHE) else None
    path = configured or Path(cache or DEFAULT_CACHE)
    record = load(path)
    if isinstance(inputs, FileInputs) and record is not None and _is_current(record[1], inputs):
        return record[0]
    catalog, findings, facts = build(inputs)
    log_findings(findings)
    is_there = isinstance(inputs, LiveInputs) and record is not None and record[0] == catalog
    if facts is not None and not is_there:  # of live tools it is for others
        store(path, catalog, {"builder": describe_builder(), **facts})
    return catalog


def _is_current(facts: Facts, inputs: FileInputs) -> bool:
    """Tell whether building now would give the same: same inputs, versions, files and bytes."""
    if facts.get("builder") != describe_builder() or facts.get("asked") != inputs.key:
        return False
    files: dict[str, str] = facts["files"]
    named = inputs.named_files()
    if facts["named"] != named:
        return False
    sources = inputs.find_sources(named)
    if sources is None or not sources <= files.keys():
        return False
    return hash_files(files) == files


@remember
def describe_builder() -> str:
    """Return the versions that a catalog depends on: the format, toolcrib, Python and pydantic."""
    spec = importlib.util.find_spec("pydantic")
    origin = None if spec is None else spec.origin
    pydantic = "" if origin is None else hash_file(Path(origin).with_name("version.py"))
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return f"{FORMAT}: toolcrib {__version__}, {python}, pydantic {pydantic[:12]}"


_CHECKSUM_KEY = b',"checksum":"'
_END = b'"}}\n'
_CHECKSUM_LENGTH = 64
_failed_paths: set[str] = set()
"""Files that could not be written and were reported: once is enough until it works again."""


def load(path: Path) -> tuple[dict[str, Any], Facts] | None:
    """Return the catalog in a file and its inputs; None if there is none, or it is damaged."""
    data = read_file(path, MAX_BYTES)
    return None if data is None else unseal(data)


def store(path: Path, catalog: dict[str, Any], facts: Facts) -> None:
    """Write a catalog; if that fails, log it once."""
    try:
        data = seal(catalog, facts)
        if len(data) > MAX_BYTES or unseal(data) is None:
            raise OSError("it would be too large to be read back")
        write_file(path, data)
    except (OSError, ValueError) as error:  # ValueError: an invalid name, or text that cannot be encoded
        if str(path) not in _failed_paths:
            _failed_paths.add(str(path))
            reason = getattr(error, "strerror", None) or error
            logger.warning("catalog: cannot write %s, so the catalog is built each time: %s", path, reason)
    else:
        _failed_paths.discard(str(path))


def seal(catalog: dict[str, Any], facts: Facts) -> bytes:
    """Return a document of the catalog and its facts, with a checksum."""
    body = codec.encode({**catalog, "cache": facts}).removesuffix(b"}}") + _CHECKSUM_KEY
    return body + _checksum(body) + _END


def unseal(data: bytes) -> tuple[dict[str, Any], Facts] | None:
    """Return the sealed catalog and its inputs; None for anything else."""
    split = len(data) - len(_END) - _CHECKSUM_LENGTH
    body = data[:split] if split > 0 else b""
    if not body.endswith(_CHECKSUM_KEY) or data[split:] != _checksum(body) + _END:
        return None
    document = codec.decode(data)
    return document, document.pop("cache")


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()

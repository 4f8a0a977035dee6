"""Skills: folders with a SKILL.md, published as resources (extension io.modelcontextprotocol/skills).

    skills/tea/SKILL.md            skill://tea/SKILL.md
    skills/tea/notes/green.md      skill://tea/notes/green.md

The files of a skill are pinned by their digests when the skill is read: a file that changes afterwards is not
served until the server reads the skills again, because what a client has approved is what a model must get.
A skill may contain others; they are listed on their own, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from toolcrib.component import Component
from toolcrib.content import File, is_text_type
from toolcrib.errors import CallError, DefinitionError, Finding, InvalidToolError, Location, ToolError
from toolcrib.names import check_text
from toolcrib.options import SKILLS, ToolOptions
from toolcrib.registry.folders import FileEntry, Folder
from toolcrib.registry.resources import STATIC_TTL_MS, Resource
from toolcrib.schema.parameters import HandlerInfo
from toolcrib.sources.base import Batch
from toolcrib.validation.formats import parse_frontmatter

MAIN_FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 2**20
"""The limits of the extension for one skill."""
MAX_DESCRIPTION = 1024
RESERVED = "io.modelcontextprotocol/"
_NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_PREFIX = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_UNQUOTED = "/!$&'()*+,;=:@~"


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill. `path` is relative to the skill, `digest` is "sha256:" and 64 hexadecimal digits."""

    path: str
    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class Skill:
    """A skill: the URI of its SKILL.md, its frontmatter, and its files. `text` is that of SKILL.md."""

    uri: str
    frontmatter: Mapping[str, Any]
    files: tuple[SkillFile, ...]
    source: Location
    text: str = field(repr=False, default="")

    @property
    def name(self) -> str:
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        return str(self.frontmatter["description"])

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.files)

    @property
    def digest(self) -> str:
        """The digest of the names and digests of all files."""
        return _digest("".join(sorted(f"{file.digest} {file.path}\n" for file in self.files)).encode())

    def to_wire(self) -> dict[str, Any]:
        """Return the entry of the skill in skills/list."""
        files = [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in self.files]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": files}


class SkillResource(Resource):
    """A file of a skill, with its `digest`. SKILL.md has the `skill`, and the digest of all of its files."""

    extension = SKILLS
    __slots__ = ("digest", "skill")

    def __init__(self, info: HandlerInfo, uri: str, options: ToolOptions, origin: Any) -> None:
        super().__init__(info, uri, options, origin)
        self.is_static = True
        self.ttl_ms = STATIC_TTL_MS
        self.digest: str | None = None
        self.skill: Skill | None = None


def skills_of(resources: Sequence[Component]) -> list[Skill]:
    """Return the skills among resources."""
    return [tool.skill for tool in resources if isinstance(tool, SkillResource) and tool.skill is not None]


# --- reading -------------------------------------------------------------------------------------------


def read_skills(path: Path, prefix: str = "") -> Batch:
    """Return the files of all skills in a folder as resources. One that breaks a rule is a finding.

    Raise InvalidToolError where the folder does not exist or has no skill, or the prefix is invalid.
    """
    if prefix and _PREFIX.fullmatch(prefix) is None:
        hint = "give names separated by slashes: acme/office"
        raise InvalidToolError(f"Invalid prefix of skills: {prefix!r:.80}", hint=hint)
    folder = Folder(path)
    entries = list(folder.files())
    roots = [entry.path.removesuffix(MAIN_FILE) for entry in entries if _name_of(entry) == MAIN_FILE]
    if not roots:
        hint = f"a skill is a folder with a {MAIN_FILE} in it"
        raise InvalidToolError(f"There is no skill in {path}", hint=hint)
    base = f"skill://{prefix}/" if prefix else "skill://"
    if "" in roots:  # the folder is a skill itself
        base += f"{quote(folder.path.name, safe='')}/"
    reader = _SkillReader(folder, base)
    batch = Batch()
    for root in roots:
        try:
            batch.findings += reader.read(root, [entry for entry in entries if entry.path.startswith(root)])
        except DefinitionError as error:
            batch.findings += [_refusal(reader.locate(root), item) for item in error.all_findings]
    batch.resources += reader.resources.values()
    batch.findings += _find_repeated(reader.skills)
    return batch


def _name_of(entry: FileEntry) -> str:
    return entry.path.rpartition("/")[2]


def _refusal(place: Location, found: Finding) -> Finding:
    """Return the finding about a skill that is not served."""
    where = found.where if found.file else place
    return Finding("invalid-skill", "error", found.message, None, None, where.file, where.line, found.hint)


class _SkillReader:
    """Reads the skills of one folder. A file that two skills share becomes one resource."""

    def __init__(self, folder: Folder, base: str) -> None:
        self.folder = folder
        self.base = base
        self.skills: list[Skill] = []
        self.resources: dict[str, Component] = {}

    def locate(self, root: str) -> Location:
        return Location(str(self.folder.path / root / MAIN_FILE), 1)

    def read(self, root: str, entries: Sequence[FileEntry]) -> Iterator[Finding]:
        """Read the skill in a folder, and yield findings about it. Raise DefinitionError where it cannot be
        served."""
        label = root.rstrip("/") or self.folder.path.name
        _check_limits(label, entries)
        contents = {entry.path: self._read_file(label, entry) for entry in entries}
        main = contents[f"{root}{MAIN_FILE}"]
        source = self.locate(root)
        frontmatter = parse_frontmatter(main, Path(str(source.file)))
        _check_frontmatter(label, frontmatter, label.rpartition("/")[2])
        files = tuple(
            SkillFile(path.removeprefix(root), self._uri_of(path), _digest(data), len(data))
            for path, data in contents.items()
        )
        uri = self._uri_of(f"{root}{MAIN_FILE}")
        skill = Skill(uri, frontmatter, files, source, main.decode("utf-8-sig"))
        made = [
            self._make(entry, file, contents[entry.path]) for entry, file in zip(entries, files, strict=True)
        ]
        for resource in made:
            self.resources.setdefault(resource.name, resource)
        self.resources[uri] = _as_main(next(each for each in made if each.name == uri), skill)
        self.skills.append(skill)
        return _find_reserved(skill)

    def _read_file(self, label: str, entry: FileEntry) -> bytes:
        try:
            return self.folder.read(entry.path)[0]
        except CallError as error:
            raise InvalidToolError(f"Skill '{label}' cannot be read: {error}") from None

    def _uri_of(self, path: str) -> str:
        return f"{self.base}{quote(path, safe=_UNQUOTED)}"

    def _make(self, entry: FileEntry, file: SkillFile, data: bytes) -> SkillResource:
        mime_type = entry.mime_type if not is_text_type(entry.mime_type) or _is_utf8(data) else _BINARY
        info = HandlerInfo(_reading(self.folder, entry.path, file.digest, mime_type), "resource")
        info.source = Location(str(self.folder.path / entry.path), 1)
        made = SkillResource(info, file.uri, ToolOptions(read_only=True, run="thread"), self.folder)
        made.display_name, made.folder = entry.path, self.folder
        made.mime_type, made.size, made.digest = mime_type, file.size, file.digest
        return made


_BINARY = "application/octet-stream"


def _as_main(made: SkillResource, skill: Skill) -> SkillResource:
    made.skill, made.digest = skill, skill.digest
    made.options = made.options.override({"description": skill.description})
    made.display_name = skill.name
    return made


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _reading(folder: Folder, path: str, digest: str, mime_type: str) -> Callable[[], File]:
    def read() -> File:
        data, _ = folder.read(path)
        if _digest(data) != digest:
            text = f"File {path!r:.200} has changed since the server started: restart it, or use --reload"
            raise ToolError(text)
        return File(data, mime_type=mime_type)

    return read


# --- rules ---------------------------------------------------------------------------------------------


def _check_limits(label: str, entries: Sequence[FileEntry]) -> None:
    size = sum(entry.size for entry in entries)
    hint = "leave out what the skill does not need, or split it"
    if len(entries) > MAX_FILES:
        text = f"Skill '{label}' has {len(entries):,} files; the limit is {MAX_FILES}"
        raise InvalidToolError(text, hint=hint)
    if size > MAX_BYTES:
        text = f"Skill '{label}' has {size:,} bytes; the limit is {MAX_BYTES // 2**20} MiB"
        raise InvalidToolError(text, hint=hint)
    folded = Counter(entry.path.casefold() for entry in entries)
    for entry in entries:
        if folded[entry.path.casefold()] > 1:
            text = f"Skill '{label}' has two files whose names differ only in case: {entry.path!r:.200}"
            raise InvalidToolError(text, hint="rename one: some systems cannot keep both")


def _check_frontmatter(label: str, frontmatter: Any, folder: str) -> None:
    """Raise InvalidToolError unless the frontmatter has a valid name and description."""
    if not isinstance(frontmatter, Mapping):
        raise InvalidToolError(
            f"The frontmatter of skill '{label}' must be a mapping, got {type(frontmatter).__name__}",
            hint="write lines such as `name: tea` and `description: ...`",
        )
    name, description = frontmatter.get("name"), frontmatter.get("description")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        hint = "use 1 to 64 lower-case letters, digits and single hyphens"
        raise InvalidToolError(f"Skill '{label}' has no valid name, got {name!r:.80}", hint=hint)
    if name != folder:
        text = f"Skill '{name}' is in the folder '{folder}'"
        raise InvalidToolError(text, hint="give both the same name: clients find a skill by its folder")
    if not isinstance(description, str) or not description.strip():
        raise InvalidToolError(
            f"Skill '{label}' has no description", hint="say what it does, and when to use it"
        )
    if len(description) > MAX_DESCRIPTION:
        text = f"The description of skill '{label}' has {len(description):,} characters"
        raise InvalidToolError(text, hint=f"the limit is {MAX_DESCRIPTION}: put the rest into the text")
    check_text(description, f"The description of skill '{label}'")
    if "metadata" in frontmatter and not isinstance(frontmatter["metadata"], Mapping):
        raise InvalidToolError(f"The metadata of skill '{label}' must be a mapping")


def _find_reserved(skill: Skill) -> Iterator[Finding]:
    for key in skill.frontmatter.get("metadata", {}):
        if key.startswith(RESERVED):
            text = f"Skill '{skill.name}' has the metadata {key!r:.80}, which is reserved for MCP"
            place = skill.source
            yield Finding(
                "reserved-metadata", "warning", text, None, None, place.file, place.line, "use another prefix"
            )


def _find_repeated(skills: Sequence[Skill]) -> Iterator[Finding]:
    names = Counter(skill.name for skill in skills)
    for skill in skills:
        if names[skill.name] > 1:
            text = f"There is more than one skill '{skill.name}': models cannot tell them apart"
            place = skill.source
            yield Finding("repeated-skill", "warning", text, None, None, place.file, place.line, "rename one")

"""Skills that a server publishes (extension io.modelcontextprotocol/skills): parse entries, verify files.

An entry lists every file of a skill with its digest and size. A file that differs from its entry is refused:
what a person has approved is what a model gets to read. Nothing is fetched before it is asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.client.entries import ResourceContents
from toolcrib.errors import InvalidResponseError, SourceError

EXTENSION = "io.modelcontextprotocol/skills"
MAIN_FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
"""The limits of the extension for one skill."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class SkillFile:
    """A file of a skill. `digest` is "sha256:" and 64 hexadecimal digits."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True)
class RemoteSkill:
    """A skill of another server; `wire` is its entry as received.

    `frontmatter` comes from its SKILL.md. `files` is None if the server generates them: then their content
    cannot be verified.
    """

    uri: str
    frontmatter: Mapping[str, Any]
    files: tuple[SkillFile, ...] | None
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        return str(self.frontmatter["description"])

    @property
    def folder(self) -> str:
        """The URI of the folder of the skill."""
        return self.uri.removesuffix(f"/{MAIN_FILE}")

    def uri_of(self, file: str) -> str:
        """Return the URI of a file, given by its path in the skill or by its URI. Raises ValueError if it is
        not a file of the skill."""
        uri = file if "://" in file else f"{self.folder}/{file}"
        if self.files is not None:
            is_file = any(uri == item.uri for item in self.files)
        else:
            is_file = uri.startswith(f"{self.folder}/") and not {".", "..", ""} & set(
                uri.removeprefix(f"{self.folder}/").split("/")
            )
        if not is_file:
            raise ValueError(f"{file[:200]} is not a file of the skill '{self.name}'")
        return uri


def parse_skill(item: Mapping[str, Any]) -> RemoteSkill:
    """Parse an entry of skills/list or skills/get. Raises ValueError."""
    uri, frontmatter = item.get("uri"), item.get("frontmatter")
    if not isinstance(uri, str) or not uri.endswith(f"/{MAIN_FILE}"):
        raise ValueError(f"its uri does not end in /{MAIN_FILE}")
    if not isinstance(frontmatter, Mapping) or not isinstance(frontmatter.get("description"), str):
        raise ValueError(f"{uri[:200]} has no frontmatter with a description")
    skill = RemoteSkill(uri, frontmatter, None, item)
    if frontmatter.get("name") != skill.folder.rpartition("/")[2]:
        raise ValueError(f"{uri[:200]} has another name than its folder")
    if item.get("resources") == "dynamic":
        return skill
    return RemoteSkill(uri, frontmatter, _parse_files(item.get("resources"), skill), item)


def _parse_files(items: Any, skill: RemoteSkill) -> tuple[SkillFile, ...]:
    if not isinstance(items, list) or len(items) > MAX_FILES:
        raise ValueError(f"{skill.uri[:200]} has no list of at most {MAX_FILES} files")
    files = {file.uri: file for file in (_parse_file(item, skill) for item in items)}
    if len(files) < len(items) or skill.uri not in files:
        raise ValueError(f"the files of {skill.uri[:200]} are incomplete or listed twice")
    if sum(file.size for file in files.values()) > MAX_BYTES:
        raise ValueError(f"{skill.uri[:200]} is larger than {MAX_BYTES >> 20} MiB")
    return tuple(files.values())


def _parse_file(item: Any, skill: RemoteSkill) -> SkillFile:
    if not isinstance(item, Mapping):
        raise ValueError(f"a file of {skill.uri[:200]} is not an object")
    uri, digest, size = item.get("uri"), item.get("digest"), item.get("size")
    if not isinstance(uri, str) or not uri.startswith(f"{skill.folder}/"):
        raise ValueError(f"a file of {skill.uri[:200]} is outside its folder")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
        raise ValueError(f"{uri[:200]} has no valid digest and size")
    return SkillFile(uri, digest, size)


def verify_file(
    skill: RemoteSkill, uri: str, contents: list[ResourceContents], label: str
) -> ResourceContents:
    """Return the file that was read, if it is the one of the entry. Raises InvalidResponseError."""
    if len(contents) != 1 or contents[0].uri != uri:
        raise InvalidResponseError(f"{label} returned other contents than {uri[:200]}")
    found = contents[0]
    data = found.data if found.data is not None else (found.text or "").encode("utf-8", "surrogatepass")
    for file in skill.files or ():
        if file.uri == uri and (
            len(data) != file.size or f"sha256:{hashlib.sha256(data).hexdigest()}" != file.digest
        ):
            raise InvalidResponseError(
                f"{uri[:200]} differs from its entry: it was changed; get the skill again and review it"
            )
    if uri == skill.uri and _read_frontmatter(data, uri) != skill.frontmatter:
        raise InvalidResponseError(f"the frontmatter of {uri[:200]} differs from its entry")
    return found


def _read_frontmatter(data: bytes, uri: str) -> Any:
    # Delayed: few clients read skills.
    from toolcrib.sources.descriptors.formats import parse_frontmatter

    try:
        return parse_frontmatter(data, Path(MAIN_FILE))
    except SourceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise InvalidResponseError(f"{uri[:200]} cannot be verified: {error}{hint}") from None

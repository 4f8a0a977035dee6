"""Parse the tools, resources, prompts, skills and results that a server sends. Input is untrusted.

An entry of a skill (extension io.modelcontextprotocol/skills) lists every file with its digest and size. A
file that differs from its entry is refused: what a person has approved is what a model gets to read. Nothing
is fetched before it is asked for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from toolcrib.client.session import SERVER_INFO
from toolcrib.content import Block, Result
from toolcrib.definition import ToolDefinition
from toolcrib.errors import (
    InvalidArgumentsError,
    InvalidResponseError,
    InvalidSchemaError,
    Location,
    SourceError,
)
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

T = TypeVar("T")

MAIN_FILE = "SKILL.md"
MAX_SKILL_FILES = 512
MAX_SKILL_BYTES = 16 * 1024 * 1024
"""The limits of the extension for one skill."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class RemoteTool:
    """A tool of another server; `wire` is its definition as received."""

    definition: ToolDefinition
    wire: Mapping[str, Any] = field(repr=False)
    header_arguments: Mapping[tuple[str, ...], str] = field(default_factory=dict, repr=False)
    """The path of each argument that is repeated in an HTTP header, and the header's name."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def input_schema(self) -> Mapping[str, Any]:
        return self.definition.input_schema

    @property
    def output_schema(self) -> Mapping[str, Any] | None:
        return self.definition.output_schema


@dataclass(frozen=True)
class RemoteResource:
    """A resource of another server; `wire` is its entry as received."""

    uri: str
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RemoteTemplate:
    """A template for the URIs of resources of another server; `wire` is its entry as received."""

    uri_template: str
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PromptArgument:
    """An argument of a prompt. Its value is a string."""

    name: str
    title: str | None = None
    description: str = ""
    required: bool = False


@dataclass(frozen=True)
class RemotePrompt:
    """A prompt of another server; `wire` is its entry as received."""

    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    wire: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ResourceContents:
    """One item of a resource: `text`, or `data` if it is binary."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    data: bytes | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PromptMessage:
    """A message of a prompt; `content` is one content block."""

    role: Literal["user", "assistant"]
    content: Block

    @property
    def text(self) -> str:
        """The text of a text block, else an empty string."""
        return str(self.content["text"]) if self.content["type"] == "text" else ""


@dataclass(frozen=True)
class PromptResult:
    """The expanded prompt."""

    description: str | None
    messages: list[PromptMessage]
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Completion:
    """Values for an argument. `total` is how many there are, if the server knows it."""

    values: list[str]
    total: int | None = None
    has_more: bool = False


# --- lists -----------------------------------------------------------------------------------------------


def read_items(items: Any, label: str, what: str, parse: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
    """Yield the entries of one page of a list, skipping invalid ones with a warning."""
    if not isinstance(items, list):
        raise InvalidResponseError(f"{label} sent a list of {what}s without entries")
    for item in items:
        try:
            if not isinstance(item, Mapping):
                raise ValueError("not an object")
            yield parse(item)
        except ValueError as error:
            logger.warning("%s lists an invalid %s: %s", label, what, error)


def parse_tool(item: Mapping[str, Any], label: str, *, over_http: bool) -> RemoteTool:
    """Parse an entry of tools/list. Raises ValueError."""
    if not isinstance(item.get("name"), str):
        raise ValueError("missing name")
    name, schema, output = item["name"], item.get("inputSchema"), item.get("outputSchema")
    if not isinstance(schema, Mapping):
        raise ValueError(f"'{name:.100}' has no inputSchema")
    annotations, icons, meta = item.get("annotations"), item.get("icons"), item.get("_meta")
    definition = ToolDefinition(
        name=name,
        description=text_of(item, "description") or "",
        input_schema=schema,
        output_schema=output if isinstance(output, Mapping) else None,
        title=text_of(item, "title"),
        annotations=annotations if isinstance(annotations, Mapping) else {},
        icons=icons if isinstance(icons, list) and all(isinstance(icon, Mapping) for icon in icons) else (),
        meta=meta if isinstance(meta, Mapping) else {},
        source=Location(label),
    )
    try:
        # Over HTTP an invalid x-mcp-header makes the tool uncallable; other transports ignore it.
        header_arguments = definition.mirrored if over_http else {}
    except (InvalidSchemaError, RecursionError) as error:
        raise ValueError(f"'{name:.100}': {error}") from None
    return RemoteTool(definition, item, header_arguments)


def parse_resource(item: Mapping[str, Any]) -> RemoteResource:
    """Parse an entry of resources/list. Raises ValueError."""
    size = item.get("size")
    uri = _required(item, "uri")
    return RemoteResource(
        uri,
        text_of(item, "name") or uri,
        text_of(item, "title"),
        text_of(item, "description") or "",
        text_of(item, "mimeType"),
        size if type(size) is int else None,
        item,
    )


def parse_template(item: Mapping[str, Any]) -> RemoteTemplate:
    """Parse an entry of resources/templates/list. Raises ValueError."""
    uri_template = _required(item, "uriTemplate")
    return RemoteTemplate(
        uri_template,
        text_of(item, "name") or uri_template,
        text_of(item, "title"),
        text_of(item, "description") or "",
        text_of(item, "mimeType"),
        item,
    )


def parse_prompt(item: Mapping[str, Any]) -> RemotePrompt:
    """Parse an entry of prompts/list. Raises ValueError."""
    arguments = item.get("arguments")
    listed = arguments if isinstance(arguments, list) else []
    return RemotePrompt(
        _required(item, "name"),
        text_of(item, "title"),
        text_of(item, "description") or "",
        tuple(_parse_argument(argument) for argument in listed),
        item,
    )


def _parse_argument(item: Any) -> PromptArgument:
    if not isinstance(item, Mapping):
        raise ValueError("an argument is not an object")
    return PromptArgument(
        _required(item, "name"),
        text_of(item, "title"),
        text_of(item, "description") or "",
        item.get("required") is True,
    )


def _required(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise ValueError(f"missing {key}")
    return value


def text_of(item: Mapping[str, Any], key: str) -> str | None:
    """Return the string under a key, None for anything else."""
    value = item.get(key)
    return value if isinstance(value, str) else None


# --- results ---------------------------------------------------------------------------------------------


def read_result(result: Mapping[str, Any], label: str) -> Result:
    """Parse the result of a call. Raises InvalidResponseError."""
    content = result.get("content", [])
    if not isinstance(content, list) or not all(is_block(item) for item in content):
        raise InvalidResponseError(f"{label} returned invalid content")
    if "content" not in result and "structuredContent" not in result:
        raise InvalidResponseError(f"{label} returned a result without content")
    meta = result.get("_meta")
    meta = {key: item for key, item in meta.items() if key != SERVER_INFO} if isinstance(meta, dict) else None
    return Result(
        content,
        result.get("structuredContent"),
        is_error=result.get("isError") is True,
        is_structured="structuredContent" in result,
        meta=meta or None,
    )


def is_block(item: Any) -> bool:
    """Return whether an item of a result is a content block."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    return item["type"] != "text" or isinstance(item.get("text"), str)


def read_contents(result: Mapping[str, Any], label: str) -> list[ResourceContents]:
    """Parse the result of resources/read. Raises InvalidResponseError."""
    contents = result.get("contents")
    if not isinstance(contents, list):
        raise InvalidResponseError(f"{label} returned a resource without contents")
    try:
        return [_parse_contents(item) for item in contents]
    except ValueError as error:
        raise InvalidResponseError(f"{label} returned an invalid resource: {error}") from None


def _parse_contents(item: Any) -> ResourceContents:
    if not isinstance(item, Mapping):
        raise ValueError("an item of the contents is not an object")
    uri, text, blob, meta = _required(item, "uri"), item.get("text"), item.get("blob"), item.get("_meta")
    if isinstance(text, str) == isinstance(blob, str):
        raise ValueError(f"{uri[:200]} must have either text or blob")
    return ResourceContents(
        uri,
        text_of(item, "mimeType"),
        text if isinstance(text, str) else None,
        _decode(blob, uri) if isinstance(blob, str) else None,
        meta if isinstance(meta, Mapping) else None,
    )


def _decode(blob: str, uri: str) -> bytes:
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the blob of {uri[:200]} is not base64") from None


def read_prompt_result(result: Mapping[str, Any], label: str) -> PromptResult:
    """Parse the result of prompts/get. Raises InvalidResponseError."""
    messages, meta = result.get("messages"), result.get("_meta")
    if not isinstance(messages, list):
        raise InvalidResponseError(f"{label} returned a prompt without messages")
    for item in messages:
        has_role = isinstance(item, Mapping) and item.get("role") in ("user", "assistant")
        if not has_role or not is_block(item.get("content")):
            raise InvalidResponseError(f"{label} returned a prompt with an invalid message")
    meta = {key: item for key, item in meta.items() if key != SERVER_INFO} if isinstance(meta, dict) else None
    return PromptResult(
        text_of(result, "description"),
        [PromptMessage(item["role"], item["content"]) for item in messages],
        meta or None,
    )


def read_completion(result: Mapping[str, Any], label: str) -> Completion:
    """Parse the result of completion/complete. Raises InvalidResponseError."""
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, Mapping) else None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InvalidResponseError(f"{label} returned a completion without values")
    total = completion["total"] if isinstance(completion, Mapping) and "total" in completion else None
    has_more = isinstance(completion, Mapping) and completion.get("hasMore") is True
    return Completion(values, total if type(total) is int else None, has_more)


# --- parameters ------------------------------------------------------------------------------------------


def write_arguments(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of a prompt: strings as they are, other values as JSON text."""
    try:
        return {
            name: value if isinstance(value, str) else codec.encode(value).decode()
            for name, value in arguments.items()
        }
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgumentsError(f"The arguments are not JSON: {error}") from None


def write_reference(ref: str | RemotePrompt | RemoteTemplate | Mapping[str, Any]) -> dict[str, Any]:
    """Return the reference of a completion as it is sent. A string with "://" is a URI or a template."""
    if isinstance(ref, RemotePrompt):
        return {"type": "ref/prompt", "name": ref.name}
    if isinstance(ref, RemoteTemplate):
        return {"type": "ref/resource", "uri": ref.uri_template}
    if isinstance(ref, Mapping):
        return dict(ref)
    if "://" in ref:
        return {"type": "ref/resource", "uri": ref}
    return {"type": "ref/prompt", "name": ref}


# --- skills ---------------------------------------------------------------------------------------------


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
    return RemoteSkill(uri, frontmatter, _parse_skill_files(item.get("resources"), skill), item)


def _parse_skill_files(items: Any, skill: RemoteSkill) -> tuple[SkillFile, ...]:
    if not isinstance(items, list) or len(items) > MAX_SKILL_FILES:
        raise ValueError(f"{skill.uri[:200]} has no list of at most {MAX_SKILL_FILES} files")
    files = {file.uri: file for file in (_parse_skill_file(item, skill) for item in items)}
    if len(files) < len(items) or skill.uri not in files:
        raise ValueError(f"the files of {skill.uri[:200]} are incomplete or listed twice")
    if sum(file.size for file in files.values()) > MAX_SKILL_BYTES:
        raise ValueError(f"{skill.uri[:200]} is larger than {MAX_SKILL_BYTES >> 20} MiB")
    return tuple(files.values())


def _parse_skill_file(item: Any, skill: RemoteSkill) -> SkillFile:
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
    from toolcrib.validation.formats import parse_frontmatter

    try:
        return parse_frontmatter(data, Path(MAIN_FILE))
    except SourceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise InvalidResponseError(f"{uri[:200]} cannot be verified: {error}{hint}") from None

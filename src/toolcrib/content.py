"""Results besides plain data: images, audio, files, links, messages of prompts, and `Result` itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.errors import CallError, missing_attribute

Block = dict[str, Any]

BUILT_IN = frozenset({bool, dict, float, int, list, str, tuple, type(None)})
"""The types of nearly all results; they are neither awaited nor iterated."""


ROLES = ("user", "assistant")
_TEXT_TYPES = frozenset(
    {"graphql", "javascript", "json", "jsonl", "sql", "toml", "x-ndjson", "x-sh", "xml", "yaml"}
)


def is_text_type(mime_type: str) -> bool:
    """Whether data of a media type is sent as text."""
    kind = mime_type.partition(";")[0].strip().lower()
    return (
        kind.startswith("text/")
        or (kind.startswith("application/") and kind[12:] in _TEXT_TYPES)
        or kind.endswith(("+json", "+xml", "+yaml"))
    )


def encode_contents(data: bytes, mime_type: str) -> Block:
    """Return the contents of a resource: text where the media type is text and the data UTF-8, else in
    base64, so that no byte is lost."""
    if is_text_type(mime_type):
        try:
            return {"mimeType": mime_type, "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"mimeType": mime_type, "blob": base64.b64encode(data).decode()}


class _Media:
    """Bytes, or a file to read them from, with a media type."""

    kind: str = ""
    default_type: str = "application/octet-stream"
    __slots__ = ("data", "mime_type", "path")

    def __init__(
        self, data: bytes | None = None, *, path: str | Path | None = None, mime_type: str | None = None
    ) -> None:
        if (data is None) == (path is None):
            raise ValueError(f"{type(self).__name__} takes either data or path")
        if not isinstance(data, bytes | bytearray | memoryview | None):
            name, kind = type(self).__name__, type(data).__name__
            raise TypeError(f"{name} takes bytes, got {kind}; for a file, use {name}(path=...)")
        self.data = data
        self.path = Path(path) if path is not None else None
        import mimetypes  # few tools return files

        guessed = mimetypes.guess_type(str(path))[0] if path is not None else None
        self.mime_type = mime_type or guessed or self.default_type

    def read(self) -> bytes:
        if self.data is not None:
            return self.data
        assert self.path is not None  # the constructor requires one  # noqa: S101
        return self.path.read_bytes()

    def to_block(self) -> Block:
        data = base64.b64encode(self.read()).decode()
        return {"type": self.kind, "data": data, "mimeType": self.mime_type}


class Image(_Media):
    """`Image(png_bytes)` or `Image(path="chart.png")`."""

    kind = "image"
    default_type = "image/png"
    __slots__ = ()


class Audio(_Media):
    """`Audio(wav_bytes)` or `Audio(path="speech.wav")`."""

    kind = "audio"
    default_type = "audio/wav"
    __slots__ = ()


class File(_Media):
    """The content of a file: as text where its media type is text and it is UTF-8, else in base64."""

    kind = "resource"
    __slots__ = ("is_named", "uri")

    def __init__(
        self,
        data: bytes | str | None = None,
        *,
        path: str | Path | None = None,
        mime_type: str | None = None,
        uri: str | None = None,
    ) -> None:
        if isinstance(data, str):
            data, mime_type = data.encode(), mime_type or "text/plain"
        super().__init__(data, path=path, mime_type=mime_type)
        self.is_named = uri is not None
        self.uri = uri or (self.path.resolve().as_uri() if self.path is not None else "file:///unnamed")

    def to_block(self) -> Block:
        contents = encode_contents(bytes(self.read()), self.mime_type)
        return {"type": "resource", "resource": {"uri": self.uri, **contents}}


@dataclass(frozen=True, slots=True)
class Link:
    """A link to something that the client can fetch."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None

    def to_block(self) -> Block:
        block: Block = {"type": "resource_link", "uri": self.uri, "name": self.name}
        if self.description is not None:
            block["description"] = self.description
        if self.mime_type is not None:
            block["mimeType"] = self.mime_type
        if self.size is not None:
            block["size"] = self.size
        return block


MEDIA = (_Media, Link)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt: text, an image or another content, by the user or the assistant."""

    content: Any
    role: Literal["user", "assistant"] = "user"

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"unknown role {self.role!r:.40}: use {' or '.join(ROLES)}")


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


_OTHER_ATTRIBUTES = {
    "data": "use result.structured_content",
    "isError": "use result.is_error",
    "structuredContent": "use result.structured_content",
}
"""What results of mcp and fastmcp have under other names."""


@dataclass(slots=True)
class Result:
    """The result of a call: content blocks, and structured data where there is some.

    `is_structured` distinguishes a structured `None` from no data. `error` is the exception of an `is_error`
    result, for callers in the same process; it is never sent. Not frozen: creating a frozen dataclass takes
    four times as long, and every call creates one.
    """

    content: list[Block] = field(default_factory=list)
    structured_content: Any = None
    is_error: bool = False
    is_structured: bool = False
    meta: dict[str, Any] | None = None
    error: CallError | None = field(default=None, compare=False, repr=False)

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("Result", name, _OTHER_ATTRIBUTES.get(name), self)

    @classmethod
    def of(cls, text: str, structured: Any) -> Result:
        """Return a result with text for people and data for programs."""
        return cls([text_block(text)], structured, is_structured=True)

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")

    def to_json(self) -> dict[str, Any]:
        """Return the result object of MCP."""
        wire: dict[str, Any] = {"content": self.content}
        if self.is_structured:
            wire["structuredContent"] = self.structured_content
        wire["isError"] = self.is_error
        if self.meta:
            wire["_meta"] = self.meta
        return wire


class RelayedResult(Result):
    """Contents or messages that another server has sent: they are passed on as they are."""

    __slots__ = ()

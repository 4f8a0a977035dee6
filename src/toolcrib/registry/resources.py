"""Resources: what a server publishes under a URI or a URI template, made by a function or fixed.

A resource is a tool with another form on the wire: its name is its URI, its arguments are the variables of
its template, and what it returns becomes contents instead of a result (docs/decisions/resources.md).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from toolcrib.component import Component, FolderFile, Tool
from toolcrib.content import MEDIA, ROLES, Block, File, Link, RelayedResult, Result, encode_contents
from toolcrib.errors import Finding, InvalidToolError, Location
from toolcrib.names import URI, check_text
from toolcrib.options import OptionFields, RunMode, ToolOptions, check_option_names
from toolcrib.registry.completion import TIMEOUT_S, Completers
from toolcrib.registry.index import Snapshot, VersionGroup
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.uri_template import URITemplate, is_template, screen
from toolcrib.schema.function import ToolParts
from toolcrib.schema.parameters import HandlerInfo, check_parameters, inspect_handler, name_of
from toolcrib.schema.result import ToolResults
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.registry.folders import Folder

logger = logging.getLogger("toolcrib")
STATIC_TTL_MS = 3_600_000
JSON_TYPE = "application/json"
MAX_PATHS = 1_000
"""Paths of a folder that are considered for a completion."""
_PLAIN = re.compile(r"[A-Za-z0-9._~:/-]*")
"""URIs that can be written in one way only."""
_CONTENTS = frozenset({"uri", "mimeType", "text", "blob", "_meta"})
_OWN_FIELDS = ("mime_type", "size", "annotations", "ttl_ms", "unscreened")


class ComponentFields(TypedDict, total=False):
    """The options that resources and prompts share."""

    name: str | None
    title: str | None
    description: str | None
    tags: Sequence[str]
    icons: Sequence[Mapping[str, Any]]
    meta: Mapping[str, Any]
    scopes: Sequence[str]
    audit: Literal["required"] | None
    enabled: bool
    group: str | None
    run: RunMode
    timeout_s: float | None
    max_threads: int | None


class ResourceFields(ComponentFields, total=False):
    """The options of a resource, as keyword arguments of `server.resource` and `server.add_resource`."""

    mime_type: str | None
    size: int | None
    annotations: Mapping[str, Any]
    ttl_ms: int | None
    unscreened: Sequence[str]


class Resource(Component):
    """A resource, or a template of resources.

    `display_name` is the name that clients show, `template` is None for a single URI. `annotations` are those
    of MCP (`audience`, `priority`, `lastModified`). Clients may keep what they read for `ttl_ms`.
    `unscreened` are variables that may hold `..`, absolute paths and NUL. `folder` is the one whose files are
    published together; `member_of` says which of them this is. `digest` is that of content which must not
    change while it is served.
    """

    kind = "resource"
    digest: str | None = None
    __slots__ = (
        "annotations",
        "completers",
        "display_name",
        "folder",
        "is_static",
        "member_of",
        "mime_type",
        "size",
        "template",
        "ttl_ms",
        "unscreened",
    )

    def __init__(self, info: HandlerInfo, uri: str, options: ToolOptions, origin: Any) -> None:
        super().__init__(info, uri, options, "function", origin)
        self.display_name = uri
        self.template: URITemplate | None = None
        self.folder: Folder | None = None
        self.member_of: FolderFile | None = None
        self.mime_type: str | None = None
        self.size: int | None = None
        self.annotations: Mapping[str, Any] = {}
        self.ttl_ms: int | None = None
        self.unscreened: frozenset[str] = frozenset()
        self.completers: Completers = {}
        self.is_static = False

    def _make_results(self, parts: ToolParts) -> ToolResults:
        return ResourceResults(self, parts.dump)

    def to_wire(self) -> dict[str, Any]:
        """Return the entry of the resource in a list, as the newest revision has it."""
        wire: dict[str, Any] = {
            "uriTemplate" if self.template else "uri": self.name,
            "name": self.display_name,
        }
        given = {
            "title": self.options.title,
            "description": self._describe(),
            "mimeType": self.mime_type,
            "size": self.size,
            "annotations": dict(self.annotations),
            "icons": list(self.options.icons),
            "_meta": dict(self.options.meta),
        }
        return wire | {key: value for key, value in given.items() if value not in (None, "", {}, [])}

    def _describe(self) -> str:
        if self.is_static:  # nothing has to be built
            return self.options.description or ""
        return self.definition.description

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the variables in a URI of this template; None for another URI, or values that are
        refused."""
        if self.template is None:
            return {} if uri == self.name else None
        values = self.template.match(uri)
        if values is None or screen(values, self.unscreened) is not None:
            return None
        return values

    @property
    def is_folder(self) -> bool:
        return self.folder is not None and self.template is not None

    def file_at(self, arguments: Mapping[str, Any] | None) -> Resource | None:
        path = arguments.get("path") if arguments and self.is_folder else None
        if self.template is None or not isinstance(path, str):
            return None
        values = {"path": path}
        made = self._changed(name=self.template.expand(values))
        made.template, made.member_of, made._built = None, FolderFile(self, values), self._built
        return made


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or codec.is_json(value))


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(map(_is_text, value))


def _is_annotations(value: Any) -> bool:
    if not isinstance(value, Mapping) or not codec.is_json(value):
        return False
    audience, priority = value.get("audience", ()), value.get("priority", 0)
    is_audience = isinstance(audience, list | tuple) and all(role in ROLES for role in audience)
    is_priority = type(priority) in (int, float) and 0 <= priority <= 1
    return is_audience and is_priority and _is_text(value.get("lastModified", ""))


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str, str]] = {
    "name": (_is_text, "a string", "'orders'"),
    "mime_type": (_is_text, "a string", "'text/markdown'"),
    "size": (_is_whole, "a number of bytes", "1_000"),
    "ttl_ms": (_is_whole, "a whole number of milliseconds", "60_000"),
    "annotations": (_is_annotations, "a dict as MCP has it", "{'audience': ['user'], 'priority': 0.5}"),
    "unscreened": (_is_names, "a list of variables", "['path']"),
}
"""Options that only resources, prompts and apps have: a test, what is expected, and an example."""


def check_fields(fields: Mapping[str, Any], name: Any) -> None:
    """Raise InvalidToolError for an option of a wrong type."""
    for option in fields.keys() & _CHECKS.keys():
        is_valid, expected, example = _CHECKS[option]
        value = fields[option]
        if value is not None and not is_valid(value):
            text = f"Option '{option}' must be {expected}, got {value!r:.80}"
            owner = name if isinstance(name, str) else None
            raise InvalidToolError(text, tool=owner, hint=f"such as {option}={example}")


# --- making resources ----------------------------------------------------------------------------------


def make_resource(uri: str, function: Callable[..., Any], fields: ResourceFields) -> Resource:
    """Make a resource of a function; its parameters are the variables of a template.

    Raise DefinitionError for an invalid URI or template, and where variables and parameters do not agree.
    """
    if not callable(function):
        raise InvalidToolError(f"A resource needs a function, got {type(function).__name__}")
    check_uri(uri)
    info = inspect_handler(function, uri, "resource")
    check_parameters(info, uri)
    made = _configure(Resource(info, uri, _options(fields), function), fields)
    made.display_name = fields.get("name") or name_of(function) or uri
    if is_template(uri):
        made.template = URITemplate(uri)
    variables = () if made.template is None else made.template.variables
    _check_variables(made, variables, frozenset(() if made.template is None else made.template.optional))
    return made


def add_static(uri: str, content: Any, fields: ResourceFields, source: Location) -> list[Resource]:
    """Make resources of fixed content: text, bytes, data, a `File`, or the path of a file or folder.

    `source` is where they are added.
    """
    made = _make_static(uri, content, fields)
    for each in made:
        each.info.source = source
    return made


def _make_static(uri: str, content: Any, fields: ResourceFields) -> list[Resource]:
    if isinstance(content, Path):
        return _folder(uri, content, fields) if content.is_dir() else [_file(uri, content, fields)]
    if isinstance(content, Link):
        raise InvalidToolError("A Link cannot be a resource", hint="give the content itself, or a path")
    if callable(content):
        text = f"Fixed content of '{uri}' cannot be a {type(content).__name__}"
        raise InvalidToolError(text, hint=f'for a function, use @server.resource("{uri}")')
    check_uri(uri, allows_template=False)
    if isinstance(content, str) and _names_file(content):
        text = "resource '%s' is the text %r, which names a file or folder; for that, give a pathlib.Path"
        logger.warning(text, uri, content)
    made = _static(uri, lambda: content, fields)
    if made.ttl_ms is None:
        made.ttl_ms = STATIC_TTL_MS
    if made.mime_type is None:
        made.mime_type = _type_of(content)
    return [made]


def _names_file(text: str) -> bool:
    """Whether a text looks like a path, and there is something at it."""
    is_path = text.isprintable() and ("/" in text or "." in text) and any(map(str.isalnum, text))
    return is_path and os.path.exists(text)  # False for a text that cannot be a path


def _static(uri: str, read: Callable[[], Any], fields: ResourceFields) -> Resource:
    made = _configure(
        Resource(HandlerInfo(read, "resource"), uri, _options(fields, run="inline"), read), fields
    )
    made.is_static = True
    made.display_name = fields.get("name") or uri.rstrip("/").rpartition("/")[2] or uri
    if made.options.description:
        check_text(made.options.description, f"The description of resource '{uri}'", uri)
    return made


def _file(uri: str, path: Path, fields: ResourceFields) -> Resource:
    from toolcrib.registry.folders import FileReader  # few servers publish files

    check_uri(uri, allows_template=False)
    reader = FileReader(path)
    if not path.is_file():
        raise InvalidToolError(f"There is no file {path}", hint="give the path of a file or a folder")

    def read() -> File:
        data, mime_type = reader.read()
        return File(data, mime_type=fields.get("mime_type") or mime_type)

    made = _static(uri, read, {"run": "thread", **fields})
    made.mime_type = made.mime_type or reader.mime_type
    return made


def _folder(uri: str, path: Path, fields: ResourceFields) -> list[Resource]:
    """Make a template for the files of a folder, and a resource of each that is there now."""
    from toolcrib.registry.folders import Folder  # few servers publish files

    base = uri if uri.endswith("/") else f"{uri}/"
    check_uri(f"{base}x", allows_template=False)
    folder = Folder(path)
    label = fields.get("name") or path.name

    def read(path: str) -> File:
        data, mime_type = folder.read(path)
        return File(data, mime_type=fields.get("mime_type") or mime_type)

    read.__doc__ = fields.get("description") or f"A file in {label}, by its path"
    shared: ResourceFields = {"run": "thread", **fields}
    template = make_resource(f"{base}{{+path}}", read, {**shared, "name": label})
    template.completers["path"] = _complete_paths(folder)
    found = [template]
    assert template.template is not None  # its URI has a variable  # noqa: S101
    for entry in folder.files():
        where = template.template.expand({"path": entry.path})
        own = _static(where, partial(read, entry.path), {**shared, "name": entry.path})
        own.mime_type, own.size = fields.get("mime_type") or entry.mime_type, entry.size
        own.member_of = FolderFile(template, {"path": entry.path})
        found.append(own)
    for each in found:
        each.folder = folder
    return found


def _complete_paths(folder: Any) -> Component:
    def complete(value: str) -> list[str]:
        found = (entry.path for entry in folder.files())
        return list(islice((path for path in found if value.casefold() in path.casefold()), MAX_PATHS))

    return Tool.from_function(complete, run="thread", timeout_s=TIMEOUT_S)


def check_uri(uri: Any, *, allows_template: bool = True) -> None:
    """Raise InvalidToolError unless this is a URI with a scheme."""
    if not isinstance(uri, str):
        hint = 'give one: @server.resource("orders://{id}")' if callable(uri) else None
        raise InvalidToolError(f"The URI of a resource must be a string, got {type(uri).__name__}", hint=hint)
    if not 1 <= len(uri) <= URI.max_length:
        text = f"The URI of a resource must have 1 to {URI.max_length} characters, got {len(uri)}"
        raise InvalidToolError(text)
    if URI.pattern.fullmatch(uri) is None:
        hint = "begin with a scheme, and encode other characters: orders://list, orders://{id}"
        raise InvalidToolError(f"Not a URI: {uri!r:.200}", hint=hint)
    if not allows_template and is_template(uri):
        hint = "use a function: @server.resource(...)"
        raise InvalidToolError(f"Fixed content needs a URI without variables, got {uri!r:.200}", hint=hint)


def _options(fields: ResourceFields, **more: Any) -> ToolOptions:
    check_option_names(fields, "resource", ResourceFields.__annotations__)
    known: OptionFields = {**more, **{k: v for k, v in fields.items() if k not in (*_OWN_FIELDS, "name")}}  # type: ignore[typeddict-item]
    options = ToolOptions(read_only=True).override(known)
    if options.run == "process":
        raise InvalidToolError("A resource cannot run in a process", hint="use run='thread'")
    return options


def _configure(made: Resource, fields: ResourceFields) -> Resource:
    check_fields(fields, made.name)
    made.mime_type = fields.get("mime_type")
    made.size = fields.get("size")
    made.annotations = fields.get("annotations") or {}
    made.ttl_ms = fields.get("ttl_ms")
    made.unscreened = frozenset(fields.get("unscreened") or ())
    return made


def _check_variables(made: Resource, variables: Sequence[str], optional: frozenset[str]) -> None:
    """Raise InvalidToolError where the template and the parameters of the function do not fit together."""
    arguments = made.arguments
    known = {
        name: name not in arguments.schema.get("required", ()) for name in arguments.schema["properties"]
    }
    for name in variables:
        if name not in known:
            raise _mismatch(made, f"its function has no parameter '{name}'", "add it, or rename the variable")
        if name in optional and not known[name]:
            raise _mismatch(made, f"'{name}' may be missing in a URI", "give the parameter a default")
    for name, has_default in known.items():
        if name not in variables and not has_default:
            hint = f"add {{{name}}} to the URI, or give the parameter a default"
            raise _mismatch(made, f"its parameter '{name}' is not in the URI", hint)
    for name in made.unscreened - set(variables):
        raise _mismatch(made, f"unscreened names '{name}', which is no variable", None)


def _mismatch(made: Resource, problem: str, hint: str | None) -> InvalidToolError:
    text = f"Resource '{made.name}' cannot be read: {problem}"
    return InvalidToolError(text, tool=made.name, source=made.source, hint=hint)


# --- finding resources ---------------------------------------------------------------------------------


class Found(NamedTuple):
    """A resource, and the variables of a URI."""

    resource: Resource
    values: dict[str, Any]


class ResourceFinder:
    """Finds the resources of a registry by URI. Keeps the templates of its present snapshot."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._seen: Snapshot | None = None
        self._templates: list[Resource] = []

    def find(self, uri: str) -> Found | None:
        """Return the resource of a URI: the one of exactly this URI, else the first template that matches.

        A template does not stand in for a resource of its own that is disabled, nor for one whose URI is only
        spelled with other escapes: rules may be about that one.
        """
        snapshot = self._registry.snapshot
        exact = find_exact(snapshot, uri)
        if exact is not None:
            return _enabled(exact)
        if snapshot is not self._seen:
            found = [tool for tool in snapshot.tools if isinstance(tool, Resource) and tool.template]
            self._templates, self._seen = found, snapshot
        for made in self._templates:
            values = made.match(uri)
            if values is None or made.template is None:
                continue
            if _PLAIN.fullmatch(uri) is None:
                exact = find_exact(snapshot, made.template.expand(values))
                if exact is not None:
                    return _enabled(exact)
            return Found(made, made.arguments.decode_texts(values))
        return None


def find_exact(snapshot: Snapshot, uri: str) -> VersionGroup | None:
    """Return the resource that has this URI for itself, enabled or not."""
    group = snapshot.index.get(uri)
    resource = None if group is None else group.entries[0].tool
    return group if isinstance(resource, Resource) and resource.template is None else None


def _enabled(group: VersionGroup) -> Found | None:
    resource = None if group.newest is None else group.newest.tool
    return Found(resource, {}) if isinstance(resource, Resource) else None


def find_overlaps(resources: Iterable[Component]) -> Iterator[Finding]:
    """Yield a finding for each template that never is read, because an earlier one matches the same URIs."""
    first: dict[str, Resource] = {}
    for made in resources:
        if not isinstance(made, Resource) or made.template is None:
            continue
        other = first.setdefault(made.template.skeleton, made)
        if other is not made:
            text = f"Resource '{made.name}' is never read: '{other.name}' matches the same URIs"
            hint = f"the first one is at {other.source}; change the fixed part of one"
            file, line = made.source.file, made.source.line
            yield Finding("same-uris", "warning", text, made.name, None, file, line, hint)


# --- contents ------------------------------------------------------------------------------------------


class ResourceResults(ToolResults):
    """Makes contents of what a resource returns: text, bytes, data, files, or a list with files in it."""

    kind = "Resource"
    __slots__ = ("mime_type",)

    def __init__(self, resource: Resource, dump: Any) -> None:
        super().__init__(resource.name, None, dump, trusted=True)
        self.mime_type = resource.mime_type

    def _finish(self, value: Any) -> Result:
        if isinstance(value, RelayedResult):
            return self._keep(value)
        if isinstance(value, Result):
            made = self._check_whole(value)
            return made if made.is_error else self._check_items([self._of_block(b) for b in made.content])
        if type(value) is dict and isinstance(value.get("contents"), list):
            value = value["contents"]
            if not all(map(_is_contents, value)):
                raise self._error("its contents are not a list of objects with a uri and text or blob")
        if isinstance(value, list | tuple) and any(map(_is_item, value)):
            return self._contents(value)
        return self._contents([value])

    def _structured(self, data: Any) -> Result:
        return self._contents([data])

    def _contents(self, values: Sequence[Any]) -> Result:
        return self._check_items([self._item(value) for value in values])

    def _check_items(self, items: list[Block]) -> Result:
        self._check_size(sum(len(item.get("text") or item.get("blob") or "") for item in items))
        return Result(items)

    def _item(self, value: Any) -> Block:
        if isinstance(value, str):
            return {"mimeType": self.mime_type or "text/plain", "text": self._check_text(str.__str__(value))}
        if isinstance(value, bytes | bytearray | memoryview):
            return encode_contents(bytes(value), self.mime_type or "application/octet-stream")
        if isinstance(value, Link):
            raise self._error("a Link is not content; return the content itself")
        if isinstance(value, MEDIA):
            item = self._of_block(value.to_block())
            if isinstance(value, File) and not value.is_named:
                del item["uri"]  # it has that of the resource
            return item
        if _is_contents(value):
            return dict(value)
        if value is None:
            return {"mimeType": self.mime_type or "text/plain", "text": ""}
        data = self._to_json_data(value)
        if type(data) is str and isinstance(value, Enum):
            return {"mimeType": self.mime_type or "text/plain", "text": data}
        return {"mimeType": self.mime_type or JSON_TYPE, "text": codec.encode(data).decode()}

    def _of_block(self, block: Block) -> Block:
        """Return the contents in a block of a tool's result."""
        if block["type"] in ("text", "resource_link"):
            is_text = block["type"] == "text"
            return self._item(block["text"] if is_text else Link(block["uri"], block["name"]))
        if block["type"] == "resource":
            own: Block = block["resource"]
            return own
        return {"mimeType": block["mimeType"], "blob": block["data"]}


def _is_item(value: Any) -> bool:
    """Whether a value in a list makes the list several contents, rather than data."""
    return isinstance(value, (bytes, bytearray, memoryview, *MEDIA)) or _is_contents(value)


def _is_contents(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("uri"), str):
        return False
    return value.keys() <= _CONTENTS and isinstance(value.get("text"), str) != isinstance(
        value.get("blob"), str
    )


def _type_of(content: Any) -> str | None:
    if isinstance(content, str):
        return "text/plain"
    if isinstance(content, File):
        return content.mime_type
    return None if isinstance(content, bytes | bytearray | memoryview) else JSON_TYPE

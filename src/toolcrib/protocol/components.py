"""Resources, prompts and skills: their lists, reading and getting them, and subscriptions of legacy clients.

A skill (extension io.modelcontextprotocol/skills) is a resource, its SKILL.md, that carries an entry: a
client sees the skills whose SKILL.md it may read. Its methods exist if the server has skills.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from toolcrib.component import Component, Kind
from toolcrib.content import Block, Result
from toolcrib.errors import (
    CannotAskError,
    FileTooLargeError,
    FileUnavailableError,
    InsufficientScopeError,
    InvalidArgumentsError,
    NotConfirmedError,
    NotFoundError,
    RelayedError,
    ThrottledError,
)
from toolcrib.options import SKILLS
from toolcrib.protocol import messages
from toolcrib.protocol.calls import (
    Peer,
    PendingRequest,
    ToolCall,
    begin,
    read_call,
    read_envelope,
    read_options,
    refuse_scopes,
)
from toolcrib.protocol.legacy import save_setting
from toolcrib.protocol.lists import list_reply, page_of, read_cursor
from toolcrib.protocol.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Id,
    Reply,
    RPCError,
    error_reply,
    invalid_params,
)
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

NOT_FOUND = -32002
"""The code of an unknown resource before 2026-07-28."""
MAX_URI = 65_536

Params = dict[str, Any]


class ComponentRequest(ToolCall):
    """A request that runs a resource or a prompt. Its failures are JSON-RPC errors: it has no `isError`."""

    kind: ClassVar[Kind]
    __slots__ = ("target",)
    target: Component | None

    def _dispatch(self) -> Awaitable[Result]:
        return self.engine.dispatcher.run(
            self.target,
            self.name,
            self.arguments,
            kind=self.kind,
            principal=self.peer.principal,
            channel=self,
        )

    @property
    def recorded_name(self) -> str:
        return f"{self.kind}:{self.name}"

    def _error_reply(self, error: Exception) -> Reply:
        reply = super()._error_reply(error)
        if reply is not None:
            return reply
        is_missing = isinstance(error, FileUnavailableError) and not isinstance(error, FileTooLargeError)
        if is_missing or isinstance(error, NotFoundError):
            return error_reply(self.id, self._not_found())
        if isinstance(error, RelayedError):
            return error_reply(self.id, RPCError(error.rpc_code, str(error), data=error.data, status=200))
        code = INVALID_PARAMS if isinstance(error, InvalidArgumentsError) else INTERNAL_ERROR
        details = getattr(error, "details", None)
        data: Mapping[str, Any] | None = None
        if isinstance(error, InvalidArgumentsError):
            data = {"problems": details}
        elif isinstance(error, ThrottledError | InsufficientScopeError | CannotAskError | NotConfirmedError):
            data = {"code": error.code, **(details or {})}
        return error_reply(self.id, RPCError(code, str(error), data=data, status=200))

    def _encode(self, result: Result) -> Reply:
        if result.is_error:
            text = result.text or "Internal error"
            return error_reply(self.id, RPCError(INTERNAL_ERROR, text, status=200))
        wire, engine = self._shape(result), self.engine
        if self.revision.modern:
            meta = {**result.meta, **engine.server_meta} if result.meta else engine.encoded_meta
            wire = {"resultType": "complete", **wire, "_meta": meta}
        elif result.meta:
            wire["_meta"] = result.meta
        return Reply(codec.write({"jsonrpc": "2.0", "id": self.id, "result": wire}))

    def _shape(self, result: Result) -> dict[str, Any]:
        raise NotImplementedError


class ResourceRead(ComponentRequest):
    """One resources/read."""

    kind = "resource"
    __slots__ = ()

    def _not_found(self) -> RPCError:
        return not_found(self.name, self.revision)

    def _shape(self, result: Result) -> dict[str, Any]:
        contents = [_contents_of(item) if "type" in item else item for item in result.content]
        items = [item if "uri" in item else {"uri": self.name, **item} for item in contents]
        if not self.revision.structured_output:
            items = [{key: value for key, value in item.items() if key != "_meta"} for item in items]
        wire: dict[str, Any] = {"contents": items}
        if self.revision.modern:
            resource: Any = self.target
            ttl_ms = resource.ttl_ms
            # Scopes and middleware may make a difference between callers.
            is_public = resource.is_static and ttl_ms and self.engine.dispatcher.pipeline is None
            wire |= {"ttlMs": ttl_ms or 0, "cacheScope": "public" if is_public else "private"}
        return wire

    @property
    def binding(self) -> list[Any]:
        return [self.peer.binding, "resources/read", self.name]


class PromptGet(ComponentRequest):
    """One prompts/get."""

    kind = "prompt"
    __slots__ = ()

    def _not_found(self) -> RPCError:
        return unknown_prompt(self.name)

    def _shape(self, result: Result) -> dict[str, Any]:
        found: list[Block] = [
            item if "role" in item else {"role": "user", "content": item} for item in result.content
        ]
        if not (self.revision.structured_output and self.revision.audio):
            shape = self.revision.shape_content
            found = [{**item, "content": shape([item["content"]])[0]} for item in found]
        wire: dict[str, Any] = {"messages": found}
        description = result.structured_content
        if description is None and self.target is not None:
            description = self.target.definition.description
        return {"description": description, **wire} if description else wire

    @property
    def binding(self) -> list[Any]:
        return [self.peer.binding, "prompts/get", self.name, self.arguments or {}]


def _contents_of(block: dict[str, Any]) -> dict[str, Any]:
    """Return contents for a block of a result that middleware has made."""
    if block["type"] == "text":
        return {"mimeType": "text/plain", "text": block["text"]}
    if block["type"] == "resource":
        return dict(block["resource"])
    if "data" in block:
        return {"mimeType": block["mimeType"], "blob": block["data"]}
    return {"mimeType": "text/plain", "text": str(block.get("uri", ""))}


def is_served(engine: Engine) -> bool:
    """Whether the server has resources, or has had some, or keeps results that are too large to send.

    A client that was told of resources may list them when none is left.
    """
    return engine.dispatcher.resources.revision > 0 or engine.dispatcher.may_keep_results


def find(engine: Engine, uri: str) -> tuple[Component, dict[str, Any]] | tuple[None, None]:
    """Return the resource of a URI, with the variables in it."""
    return (None, None) if len(uri) > MAX_URI else engine.dispatcher.find_resource(uri)


def find_visible(engine: Engine, peer: Peer, uri: str) -> Component | None:
    """Return the resource of a URI if the client may see it, and no rule denies reading this URI."""
    resource, values = find(engine, uri)
    if resource is None or not engine.dispatcher.is_visible(peer.principal, resource):
        return None
    admits = engine.dispatcher.admission(peer.principal, resource)
    return resource if admits is None or admits(values or {}) else None


def is_known(engine: Engine, peer: Peer, uri: str) -> bool:
    """Whether there is a resource of this URI that the client may read."""
    resource = find_visible(engine, peer, uri)
    return resource is not None and not engine.dispatcher.missing_scopes(peer.principal, resource)


def refuse_without_scopes(engine: Engine, peer: Peer, id_: Id, tool: Component) -> Reply | None:
    """Return the error for a client that lacks a scope to read this: it may neither watch nor complete it."""
    missing = engine.dispatcher.missing_scopes(peer.principal, tool)
    if not missing:
        return None
    text = f"{tool.label} requires a scope that you do not have: {' '.join(missing)}"
    return refuse_scopes(peer, id_, InsufficientScopeError(text, details={"scopes": list(missing)}))


def not_found(uri: str, revision: Revision) -> RPCError:
    code = INVALID_PARAMS if revision.modern else NOT_FOUND
    return RPCError(code, f"Resource not found: {uri[:200]}", data={"uri": uri[:MAX_URI]}, status=200)


def unknown_prompt(name: str) -> RPCError:
    return RPCError(INVALID_PARAMS, f"Unknown prompt: {name[:200]}", status=200)


# --- the methods -------------------------------------------------------------------------------------


def list_entries(
    engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params, *, key: str
) -> Reply:
    """Return a page of one of the lists: "resources", "resourceTemplates" or "prompts"."""
    if revision.modern:
        read_options(params)
    dispatcher = engine.dispatcher
    registry = dispatcher.prompts if key == "prompts" else dispatcher.resources
    entries = dispatcher.view(peer.principal, registry)
    page = engine.lists.page(key, entries, revision, read_cursor(params))
    return list_reply(engine, id_, revision, page)


def read_resource(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> ResourceRead:
    uri = read_uri(params)
    resource, values = find(engine, uri)
    request = ResourceRead(engine, peer, id_, revision, uri, values, *read_envelope(peer, revision, params))
    request.target = resource
    return begin(request, params)


def get_prompt(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> PromptGet:
    name, arguments = read_call(params)
    for key, value in (arguments or {}).items():
        if type(value) is not str:
            raise invalid_params(f"the argument '{key[:80]}' must be a string")
    prompt = engine.dispatcher.prompts.try_get(name)
    if prompt is not None and arguments:
        arguments = prompt.arguments.decode_texts(arguments)
    request = PromptGet(engine, peer, id_, revision, name, arguments, *read_envelope(peer, revision, params))
    request.target = prompt
    return begin(request, params)


def subscribe(
    engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params
) -> Reply | PendingRequest:
    if not is_served(engine):
        raise method_not_found("resources/subscribe")
    uri, session = read_uri(params), peer.session
    if session is None:
        text = "Invalid request: subscribing needs a session, send initialize first"
        raise RPCError(messages.INVALID_REQUEST, text)
    resource = find_visible(engine, peer, uri)
    if resource is None:
        raise not_found(uri, revision)
    if (refusal := refuse_without_scopes(engine, peer, id_, resource)) is not None:
        return refusal
    session.subscribe(uri, engine.unknown_bytes)
    return save_setting(engine, peer, id_, subscribe=uri)


def unsubscribe(
    engine: Engine,
    peer: Peer,
    id_: Id,
    revision: Revision,  # noqa: ARG001
    params: Params,
) -> Reply | PendingRequest:
    if not is_served(engine):
        raise method_not_found("resources/unsubscribe")
    uri = read_uri(params)
    if peer.session is not None:
        peer.session.unsubscribe(uri)
    return save_setting(engine, peer, id_, unsubscribe=uri)


def read_uri(params: Params) -> str:
    """Return the URI that a request names. Raise RPCError if there is none."""
    uri = params.get("uri")
    if type(uri) is not str:
        raise invalid_params("uri is required, and must be a string")
    return uri


# --- skills -----------------------------------------------------------------------------------------

SCHEME = "skill://"
FOLDER_TYPE = "inode/directory"


class Directory:
    """A folder in the list of a directory; it looks like a resource there."""

    template = None

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def to_wire(self) -> dict[str, Any]:
        return {"uri": self.uri, "name": self.uri.rpartition("/")[2], "mimeType": FOLDER_TYPE}


def has_skills(engine: Engine) -> bool:
    """Whether the server has skills."""
    return SKILLS in engine.dispatcher.resources.snapshot.extensions


def skills_capability(engine: Engine) -> Mapping[str, Any]:
    return {"extensions": {SKILLS: {"directoryRead": True}}} if has_skills(engine) else {}


def list_skills(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    entries = _open_skills(engine, peer, revision, "skills/list", params)
    cursor = read_cursor(params)
    if engine.dispatcher.pipeline is None:
        page = engine.lists.page("skills", entries, revision, cursor)
    else:
        page = page_of("skills", _whole_skills(entries), revision, engine.settings.page_size, cursor)
    return list_reply(engine, id_, revision, page)


def get_skill(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    entries = _open_skills(engine, peer, revision, "skills/get", params)
    uri = read_uri(params)
    skill = next((tool.skill for tool in _whole_skills(entries) if tool.name == uri), None)
    if skill is None:
        raise _unknown_skill("skill", uri)
    return list_reply(engine, id_, revision, b'"skill":' + codec.write(skill.to_wire()))


def read_directory(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    """List the direct children of a folder of skills: files as resources/list has them, and folders."""
    entries = _open_skills(engine, peer, revision, "resources/directory/read", params)
    uri = read_uri(params)
    start = f"{uri.rstrip('/')}/"
    children: dict[str, Any] = {}
    for tool in entries if start.startswith(SCHEME) else ():
        if tool.extension == SKILLS and tool.name.startswith(start):
            name, is_inner, _ = tool.name.removeprefix(start).partition("/")
            children.setdefault(name, Directory(f"{start}{name}") if is_inner else tool)
    if not children:
        raise _unknown_skill("directory", uri)
    size = engine.settings.page_size
    page = page_of("resources", list(children.values()), revision, size, read_cursor(params))
    return list_reply(engine, id_, revision, page)


def _open_skills(
    engine: Engine, peer: Peer, revision: Revision, method: str, params: Params
) -> tuple[Component, ...]:
    """Return the resources that the peer may read. Raise RPCError if the server has no skills."""
    if not has_skills(engine):
        raise method_not_found(method)
    if revision.modern:
        read_options(params)
    return engine.dispatcher.view(peer.principal, engine.dispatcher.resources)


def _whole_skills(entries: tuple[Component, ...]) -> list[Any]:
    """Return the skills whose files the peer may all see: an entry names every file with its digest."""
    visible = {tool.name for tool in entries}
    found: list[Any] = [tool for tool in entries if tool.extension == SKILLS]
    return [tool for tool in found if tool.skill and all(file.uri in visible for file in tool.skill.files)]


def _unknown_skill(what: str, uri: str) -> RPCError:
    return RPCError(INVALID_PARAMS, f"Unknown {what}: {uri[:200]}", data={"uri": uri[:65_536]}, status=200)

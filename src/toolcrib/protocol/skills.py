"""skills/list, skills/get and resources/directory/read: the extension io.modelcontextprotocol/skills.

A skill is a resource, its SKILL.md, that carries an entry: a client sees the skills whose SKILL.md it may
read. The methods exist if the server has skills.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component
from toolcrib.options import SKILLS
from toolcrib.protocol.calls import Peer, read_options
from toolcrib.protocol.components import read_uri
from toolcrib.protocol.lists import list_reply, page_of, read_cursor
from toolcrib.protocol.messages import INVALID_PARAMS, Id, Reply, RPCError
from toolcrib.protocol.modern import method_not_found
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

Params = dict[str, Any]
SCHEME = "skill://"
FOLDER_TYPE = "inode/directory"


class Directory:
    """A folder in the list of a directory; it looks like a resource there."""

    template = None

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def to_wire(self) -> dict[str, Any]:
        return {"uri": self.uri, "name": self.uri.rpartition("/")[2], "mimeType": FOLDER_TYPE}


def is_served(engine: Engine) -> bool:
    """Whether the server has skills."""
    return SKILLS in engine.dispatcher.resources.snapshot.extensions


def capability(engine: Engine) -> Mapping[str, Any]:
    return {"extensions": {SKILLS: {"directoryRead": True}}} if is_served(engine) else {}


def list_skills(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    entries = _open(engine, peer, revision, "skills/list", params)
    cursor = read_cursor(params)
    if engine.dispatcher.pipeline is None:
        page = engine.lists.page("skills", entries, revision, cursor)
    else:
        page = page_of("skills", _whole_skills(entries), revision, engine.settings.page_size, cursor)
    return list_reply(engine, id_, revision, page)


def get_skill(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    entries = _open(engine, peer, revision, "skills/get", params)
    uri = read_uri(params)
    skill = next((tool.skill for tool in _whole_skills(entries) if tool.name == uri), None)
    if skill is None:
        raise _unknown("skill", uri)
    return list_reply(engine, id_, revision, b'"skill":' + codec.write(skill.to_wire()))


def read_directory(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: Params) -> Reply:
    """List the direct children of a folder of skills: files as resources/list has them, and folders."""
    entries = _open(engine, peer, revision, "resources/directory/read", params)
    uri = read_uri(params)
    start = f"{uri.rstrip('/')}/"
    children: dict[str, Any] = {}
    for tool in entries if start.startswith(SCHEME) else ():
        if tool.extension == SKILLS and tool.name.startswith(start):
            name, is_inner, _ = tool.name.removeprefix(start).partition("/")
            children.setdefault(name, Directory(f"{start}{name}") if is_inner else tool)
    if not children:
        raise _unknown("directory", uri)
    size = engine.settings.page_size
    page = page_of("resources", list(children.values()), revision, size, read_cursor(params))
    return list_reply(engine, id_, revision, page)


def _open(
    engine: Engine, peer: Peer, revision: Revision, method: str, params: Params
) -> tuple[Component, ...]:
    """Return the resources that the peer may read. Raise RPCError if the server has no skills."""
    if not is_served(engine):
        raise method_not_found(method)
    if revision.modern:
        read_options(params)
    return engine.dispatcher.view(peer.principal, engine.dispatcher.resources)


def _whole_skills(entries: tuple[Component, ...]) -> list[Any]:
    """Return the skills whose files the peer may all see: an entry names every file with its digest."""
    visible = {tool.name for tool in entries}
    found: list[Any] = [tool for tool in entries if tool.extension == SKILLS]
    return [tool for tool in found if tool.skill and all(file.uri in visible for file in tool.skill.files)]


def _unknown(what: str, uri: str) -> RPCError:
    return RPCError(INVALID_PARAMS, f"Unknown {what}: {uri[:200]}", data={"uri": uri[:65_536]}, status=200)

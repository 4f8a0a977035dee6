"""Resources and prompts on servers: decorated functions, fixed content that is written out, files, skills.

Files, folders and skills beside the scanned files are listed as the server would list them; no other place is
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.errors import Location
from toolcrib.registry.prompts import PromptFields, make_prompt
from toolcrib.registry.registry import finding_of
from toolcrib.registry.resources import ResourceFields, add_static, make_resource
from toolcrib.sources.loading import resolve
from toolcrib.sources.scan.foreign import Options, filled, library_of, read_options
from toolcrib.sources.scan.making import ToolMaker
from toolcrib.sources.scan.patterns import Registration, placed
from toolcrib.sources.scan.source_file import Guess
from toolcrib.sources.scan.things import Function, Server
from toolcrib.tool import Tool

MAX_FOLDERS = 20
"""Folders that one scan lists: each may have thousands of files."""
_PLACES = {
    "prompt": ("name", "title", "description"),
    "resource": ("uri",),
    "add_resource": ("uri", "content"),
    "add_skills": ("folder", "prefix"),
}


def read_features(maker: ToolMaker, server: Server, kind: str) -> Iterator[Tool]:
    """Yield the resources or the prompts of a server. Those of servers mounted in it are left out."""
    for item in server.features:
        if (item.method == "prompt") is (kind == "prompt"):
            try:
                made = _read(maker, item, library_of(server))
            except Exception as error:  # options of any type may have been written
                found = finding_of(item.thing, error)
                maker.findings.append(placed(found, item.call.file, item.call.line))
                continue
            for each in made:
                maker.note(each.origin, guesses=[*item.guesses, *server.guesses])
                yield each


def _read(maker: ToolMaker, item: Registration, library: str) -> list[Tool]:
    read = read_options(maker.resolver, item.call, _PLACES[item.method])
    known = (PromptFields if item.method == "prompt" else ResourceFields).__annotations__
    fields: Any = {key: value for key, value in read.given.items() if key in known}
    if read.unresolved & {"uri", "folder", "prefix"}:
        maker.findings += read.findings
        return []
    if item.method == "add_skills":
        return _read_skills(maker, item, **read.given)
    if item.method == "add_resource":
        return _read_content(maker, item, read, fields)
    function = item.thing
    if not isinstance(function, Function):  # a lambda, or an object that is computed
        maker.refuse_unknown(item)
        return []
    is_ours = library == "toolcrib"
    stub = maker.make_stub(function, drops=filled(maker, function), keeps_contexts=is_ours)
    stub.function.__annotations__.pop("return", None)  # nothing describes it
    findings = [*(found for found in stub.findings if found.parameter != "return"), *read.findings]
    maker.note(stub.function, findings, maker.guesses_about(function), maker.key_of(function))
    if item.method == "prompt":
        return [make_prompt(stub.function, None, fields)]
    if not is_ours:
        fields.setdefault("mime_type", "text/plain")
    return [make_resource(read.given.get("uri", stub.function), stub.function, fields)]


def _read_content(maker: ToolMaker, item: Registration, read: Options, fields: Any) -> list[Tool]:
    """Read `server.add_resource(...)`. A file or folder that is not looked at is one resource and a guess."""
    uri: Any = read.given.get("uri")
    content = read.given.get("content", "")
    why = _find_obstacle(maker, content) if isinstance(content, Path) else ""
    source = Location(str(item.call.file.path), item.call.line)
    made = add_static(uri, "" if why else content, fields, source)
    guesses = [Guess("guessed-more", f"a folder is a resource for each file, and {why}")] if why else []
    if why:
        made[0].mime_type = fields.get("mime_type")
    maker.note(made[0].origin, read.findings, guesses)
    return [*made]


def _read_skills(maker: ToolMaker, item: Registration, folder: Any, prefix: str = "", **_: Any) -> list[Tool]:
    from toolcrib.sources.skills import read_skills  # few servers have some

    why = _find_obstacle(maker, Path(folder))
    if why:
        words, hint = f"Skills are not listed: {why}", "scan a folder that both are in"
        maker.report("guessed-more", "advice", words, item.call.scope, item.call.line, hint)
        return []
    batch = read_skills(Path(folder), prefix)
    maker.findings += batch.findings
    return batch.resources


def _find_obstacle(maker: ToolMaker, path: Path) -> str:
    """Return why a file or folder is not looked at; "" where it is."""
    real = resolve(path)
    if not maker.resolver.library.holds(real):
        return f"'{path}' is not beside the scanned files"
    if not real.exists():
        return f"'{path}' does not exist here"
    maker.folders += real.is_dir()
    return f"only {MAX_FOLDERS} folders are read" if maker.folders > MAX_FOLDERS else ""

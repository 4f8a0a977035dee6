"""Resources and prompts on servers: decorated functions, and fixed content that is written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.errors import Location
from toolcrib.registry.prompts import PromptFields, make_prompt
from toolcrib.registry.registry import finding_of
from toolcrib.registry.resources import ResourceFields, add_static, make_resource
from toolcrib.sources.scan.foreign import filled, library_of, read_options
from toolcrib.sources.scan.making import ToolMaker, placed
from toolcrib.sources.scan.patterns import Registration
from toolcrib.sources.scan.source_file import Guess
from toolcrib.sources.scan.things import Function, Server
from toolcrib.tool import Tool

_PLACES = {
    "prompt": ("name", "title", "description"),
    "resource": ("uri",),
    "add_resource": ("uri", "content"),
}


def read_features(maker: ToolMaker, server: Server, kind: str) -> Iterator[Tool]:
    """Yield the resources or the prompts of a server. Those of servers mounted in it are left out."""
    for item in server.features:
        if (item.method == "prompt") is (kind == "prompt"):
            try:
                made = _read_one(maker, item, library_of(server))
            except Exception as error:  # options of any type may have been written
                found = finding_of(item.thing, error)
                maker.findings.append(placed(found, item.call.file, item.call.line))
                continue
            if made is not None:
                maker.note(made.origin, guesses=[*item.guesses, *server.guesses])
                yield made


def _read_one(maker: ToolMaker, item: Registration, library: str) -> Tool | None:
    read = read_options(maker.resolver, item.call, _PLACES[item.method])
    known = (PromptFields if item.method == "prompt" else ResourceFields).__annotations__
    fields: Any = {key: value for key, value in read.given.items() if key in known}
    uri: Any = read.given.get("uri")
    if "uri" in read.unresolved:
        maker.findings += read.findings
        return None
    if item.method == "add_resource":
        content = read.given.get("content", "")
        is_path = isinstance(content, Path)
        source = Location(str(item.call.file.path), item.call.line)
        (made,) = add_static(uri, "" if is_path else content, fields, source)
        guesses = [Guess("guessed-more", "a folder is a resource for each file")] if is_path else []
        maker.note(made.origin, read.findings, guesses)
        return made
    function = item.thing
    if not isinstance(function, Function):  # a lambda, or an object that is computed
        maker.refuse_unknown(item)
        return None
    is_ours = library == "toolcrib"
    stub = maker.make_stub(function, drops=filled(maker, function), keeps_contexts=is_ours)
    findings = [*(found for found in stub.findings if found.parameter != "return"), *read.findings]
    maker.note(stub.function, findings, maker.guesses_about(function), maker.key_of(function))
    if item.method == "prompt":
        return make_prompt(stub.function, None, fields)
    if not is_ours:
        fields.setdefault("mime_type", "text/plain")
    return make_resource(read.given.get("uri", stub.function), stub.function, fields)

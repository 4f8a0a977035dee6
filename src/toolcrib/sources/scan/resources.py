"""Resources and prompts on servers: decorated functions, and fixed content that is written out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolcrib.component import Component
from toolcrib.errors import Location
from toolcrib.registry.prompts import PromptFields, make_prompt
from toolcrib.registry.registry import finding_of
from toolcrib.registry.resources import ResourceFields, add_static, make_resource
from toolcrib.sources.scan.foreign import filled, library_of, read_options
from toolcrib.sources.scan.making import FEATURES, ToolMaker
from toolcrib.sources.scan.patterns import placed
from toolcrib.sources.scan.things import Function, Registration, Server

_PLACES = {
    "prompt": ("name", "title", "description"),
    "resource": ("uri",),
    "add_resource": ("uri", "content"),
    "add_skills": ("content",),
}


def read_features(maker: ToolMaker, server: Server, kind: str) -> Iterator[Component]:
    """Yield the resources or the prompts of a server."""
    for item in server.registrations:
        if item.method in FEATURES and (item.method == "prompt") is (kind == "prompt"):
            try:
                made = _read(maker, item, library_of(maker, server))
            except Exception as error:  # options of any type may have been written
                found = finding_of(item.thing, error)
                maker.findings.append(placed(found, item.options.scope.file, item.options.line))
                continue
            if made is not None:
                maker.note(made.origin).spot = item.spot
                yield made


def _read(maker: ToolMaker, item: Registration, library: str) -> Component | None:
    read = read_options(maker.resolver, item.options, _PLACES[item.method])
    known = (PromptFields if item.method == "prompt" else ResourceFields).__annotations__
    fields: Any = {key: value for key, value in read.given.items() if key in known}
    uri, content = read.given.get("uri"), read.given.get("content", "")
    if item.method == "add_skills" or isinstance(content, Path):
        text, hint = "Files that are put on the server here are not listed", "list it without --static"
        maker.report("guessed-more", "advice", text, item.spot.scope, item.options.line, hint)
        return None
    if read.unresolved & {"uri", "content"}:
        maker.findings += read.findings
        return None
    if item.method == "add_resource":
        source = Location(item.options.path, item.options.line)
        (made,) = add_static(uri, content, fields, source)  # type: ignore[arg-type]
        maker.note(made.origin, read.findings)
        return made
    function, is_ours = item.thing, library == "toolcrib"
    if item.method == "resource" and isinstance(uri, str) and ":" not in uri and not is_ours:
        return None  # of another library: a path
    if not isinstance(function, Function):  # a lambda, or an object that is computed
        maker.refuse_unknown(item)
        return None
    stub = maker.make_stub(function, drops=filled(maker, function), keeps_contexts=is_ours)
    stub.function.__annotations__.pop("return", None)  # nothing describes it
    findings = [*(found for found in stub.findings if found.parameter != "return"), *read.findings]
    maker.note(stub.function, findings, maker.key_of(function))
    if item.method == "prompt":
        return make_prompt(stub.function, None, fields)
    if not is_ours:
        fields.setdefault("mime_type", "text/plain")
    given: Any = stub.function if uri is None else uri  # a decorator that is not called
    return make_resource(given, stub.function, fields)

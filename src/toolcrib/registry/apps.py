"""Apps: HTML pages that hosts show for the results of tools (extension io.modelcontextprotocol/ui).

    server.add_app("ui://orders/board", Path("board.html"), csp={"connectDomains": ["https://api.example.com"]})

    @server.tool(ui="ui://orders/board")
    def list_orders() -> list[Order]: ...

A page is a resource. A host shows it in a frame of another origin and lets it load only what its `csp`
declares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from toolcrib.component import Component
from toolcrib.errors import DefinitionError, FileUnavailableError, Finding, InvalidToolError, Location
from toolcrib.names import check_text
from toolcrib.options import APP_SCHEME, APPS, OptionFields, ToolOptions, check_option_names
from toolcrib.registry.folders import FileReader
from toolcrib.registry.resources import STATIC_TTL_MS, Resource, check_fields, check_uri
from toolcrib.schema.parameters import HandlerInfo

MIME_TYPE = "text/html;profile=mcp-app"
MAX_BYTES = 4 * 2**20
"""The size of a page. Hosts keep it in the conversation; real pages with everything inlined have a tenth."""
CSP_KEYS = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
PERMISSIONS = ("camera", "microphone", "geolocation", "clipboardWrite")
_WHOLE_PAGE = re.compile(r"<!doctype\s+html\s*>.*<html\b", re.IGNORECASE | re.DOTALL)
_DOMAIN = re.compile(
    r"(?:(?:https?|wss?)://)?(?:\*\.)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?::(?:[0-9]{1,5}|\*))?"
)


class AppFields(TypedDict, total=False):
    """The options of `server.add_app`.

    `csp` are the domains that the page may use, `permissions` the devices; `domain` is the origin that a host
    should give the page, and `prefers_border` whether it should draw a frame around it.
    """

    name: str | None
    title: str | None
    description: str | None
    csp: Mapping[str, Sequence[str]] | None
    permissions: Sequence[str] | Mapping[str, Any]
    domain: str | None
    prefers_border: bool | None
    scopes: Sequence[str]
    tags: Sequence[str]
    icons: Sequence[Mapping[str, Any]]
    enabled: bool


class App(Resource):
    """The page of an app: a resource whose contents carry the settings of the page in `_meta.ui`."""

    extension = APPS
    __slots__ = ()

    def __init__(self, info: HandlerInfo, uri: str, options: ToolOptions, origin: Any) -> None:
        super().__init__(info, uri, options, origin)
        self.is_static = True
        self.mime_type = MIME_TYPE


def make_app(uri: str, page: str | Path, fields: AppFields, caller: Location) -> App:
    """Make the resource of a page, given as HTML or as the path of a file.

    Raise DefinitionError for a page that hosts would not show.
    """
    check_uri(uri, allows_template=False)
    if not uri.startswith(APP_SCHEME) or uri == APP_SCHEME:
        hint = f"begin with {APP_SCHEME}, as in ui://orders/board"
        raise InvalidToolError(f"The URI of an app must have the scheme ui, got {uri!r:.200}", hint=hint)
    meta = _read_settings(uri, fields)
    reader = FileReader(page, MAX_BYTES) if isinstance(page, Path) else None
    source = Location(str(page), 1) if reader is not None else caller
    html = _read_page(uri, page, reader, source)

    def read() -> dict[str, Any]:
        text = html if reader is None else reader.read()[0].decode("utf-8", "replace")
        contents = {"uri": uri, "mimeType": MIME_TYPE, "text": text}
        return {"contents": [contents | ({"_meta": {"ui": meta}} if meta else {})]}

    info = HandlerInfo(read, "resource")
    info.source = source
    made = App(info, uri, _options(fields, reader is not None), page)
    made.display_name = fields.get("name") or uri.rpartition("/")[2] or uri
    made.ttl_ms = STATIC_TTL_MS if reader is None else None
    if made.options.description:
        check_text(made.options.description, f"The description of app '{uri}'", uri)
    return made


def _options(fields: AppFields, is_file: bool) -> ToolOptions:
    known = ("title", "description", "scopes", "tags", "icons", "enabled")
    given: OptionFields = {key: value for key, value in fields.items() if key in known}  # type: ignore[assignment]
    return ToolOptions(read_only=True, run="thread" if is_file else "inline").override(given)


def _read_page(uri: str, page: Any, reader: FileReader | None, source: Location) -> str:
    if reader is None and not isinstance(page, str):
        hint = "give HTML, or the Path of a file"
        raise InvalidToolError(f"App '{uri}' needs a page, got {type(page).__name__}", tool=uri, hint=hint)
    try:
        data = page.encode("utf-8", "surrogatepass") if reader is None else reader.read()[0]
        if len(data) > MAX_BYTES:
            raise FileUnavailableError(f"The page has {len(data):,} bytes, the limit is {MAX_BYTES:,}")
        html = data.decode("utf-8")
    except UnicodeDecodeError:
        problem = "The page is not UTF-8"
    except FileUnavailableError as error:
        problem = str(error)
    else:
        if _WHOLE_PAGE.search(html) is not None:
            return html
        hint = "write <!doctype html><html>...</html>; for a file, give a pathlib.Path"
        text = f"The page of app '{uri}' is not a whole HTML5 document"
        raise InvalidToolError(text, tool=uri, source=source, hint=hint)
    raise InvalidToolError(f"App '{uri}' cannot be read: {problem}", tool=uri, source=source)


# --- settings ------------------------------------------------------------------------------------------


def _read_settings(uri: str, fields: AppFields) -> dict[str, Any]:
    """Return the `_meta.ui` of the contents. Raise InvalidToolError for what hosts would not understand."""
    check_option_names(fields, "app", AppFields.__annotations__)
    check_fields(fields, uri)
    border: Any = fields.get("prefers_border")
    domain: Any = fields.get("domain")
    if domain is not None and (not isinstance(domain, str) or not domain):
        raise InvalidToolError(f"domain of app '{uri}' must be a string, got {domain!r:.80}", tool=uri)
    if border is not None and not isinstance(border, bool):
        raise InvalidToolError(f"prefers_border of app '{uri}' must be True or False", tool=uri)
    given = {
        "csp": _read_csp(uri, fields.get("csp")),
        "permissions": _read_permissions(uri, fields.get("permissions") or ()),
        "domain": domain,
        "prefersBorder": border,
    }
    return {key: value for key, value in given.items() if value not in (None, {})}


def _read_csp(uri: str, csp: Any) -> dict[str, list[str]]:
    if csp is None:
        return {}
    if not isinstance(csp, Mapping):
        raise InvalidToolError(f"csp of app '{uri}' must be a dict, got {csp!r:.80}", tool=uri)
    for key, domains in csp.items():
        if key not in CSP_KEYS:
            hint = f"keys: {', '.join(CSP_KEYS)}"
            raise InvalidToolError(f"csp of app '{uri}' has an unknown key {key!r:.40}", tool=uri, hint=hint)
        if isinstance(domains, str) or not isinstance(domains, Sequence):
            raise InvalidToolError(f"csp.{key} of app '{uri}' must be a list of domains", tool=uri)
        for domain in domains:
            if not isinstance(domain, str) or _DOMAIN.fullmatch(domain) is None:
                hint = "give a scheme and a host: https://cdn.example.com, https://*.example.com"
                text = f"csp.{key} of app '{uri}' has no valid domain {domain!r:.80}"
                raise InvalidToolError(text, tool=uri, hint=hint)
    return {key: list(domains) for key, domains in csp.items() if domains}


def _read_permissions(uri: str, permissions: Any) -> dict[str, Any]:
    if isinstance(permissions, str) or not isinstance(permissions, Iterable):
        raise InvalidToolError(f"permissions of app '{uri}' must be a list of names", tool=uri)
    for name in permissions:
        if name not in PERMISSIONS:
            hint = f"permissions: {', '.join(PERMISSIONS)}"
            raise InvalidToolError(f"App '{uri}' asks for unknown {name!r:.40}", tool=uri, hint=hint)
    return {name: {} for name in permissions}


# --- tools and their pages -----------------------------------------------------------------------------


def check_apps(tools: Iterable[Component], pages: Iterable[Component]) -> Iterator[Finding]:
    """Yield a finding for each tool whose page is missing."""
    known = {page.name for page in pages if isinstance(page, App)}
    for tool in tools:
        try:
            uri = tool.definition.app_uri
        except DefinitionError:
            continue  # reported elsewhere
        if uri is not None and uri not in known:
            text = f"Tool '{tool.name}' names the page {uri}, which the server does not have"
            file, line = tool.source.file, tool.source.line
            hint = f"add it: server.add_app('{uri}', ...)"
            yield Finding("missing-app", "error", text, tool.name, None, file, line, hint)

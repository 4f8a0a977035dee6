"""Applications: classes whose methods are tools, among them clients of HTTP APIs.

`Application` lists its tools; any object with `list_tools` works as well. `APIApplication` adds the methods
of HTTP, turns responses into data, and error responses into errors that a model can act on. Both keep the
names that applications written for universal-mcp use.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack, cast

from toolcrib.component import Component, Tool, is_marked, marked_options
from toolcrib.errors import APIError, Finding, InvalidToolError, SourceError
from toolcrib.http_client import HTTPClient, RequestOptions, Response, parse_retry_after
from toolcrib.schema.parameters import find_function, inspect_handler, locate, name_of
from toolcrib.sources.base import Batch, MemorySource, ReadOptions
from toolcrib.validation import codec

MAX_ERROR_CHARS = 500
"""The longest text of an API's error that is shown."""

_MAX_ERROR_BODY = 10_000
_BRANDS = re.compile(
    "BitBucket|ClickUp|GitHub|GitLab|HubSpot|LinkedIn|OpenAI|PayPal|SendGrid|WhatsApp|YouTube"
)
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^<>]*>")
_SECRET_NAME = re.compile(
    r"(?i)appid|auth(?!ors?$)|cookie|credential|key$|passw|pwd|secret|session|signature|token"
)
_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_client_lock = threading.Lock()

P = ParamSpec("P")
R = TypeVar("R")


class _DefaultName:
    """The default name of an application: "github" for `GitHubApp`, "open_weather" for `OpenWeatherApp`."""

    def __get__(self, instance: object, owner: type) -> str:
        name = _BRANDS.sub(lambda brand: brand[0].capitalize(), owner.__name__)
        name = re.sub("(App|Application)$", "", name) or name
        return _WORD_STARTS.sub("_", name).lower().strip("_")


class Application:
    """A class whose methods are tools. Mark them with `@tool`, or override `list_tools`.

    `namespace`, on the class or on an object, is the prefix of its tools in a registry. Other keyword
    arguments are kept in `settings`.
    """

    if TYPE_CHECKING:
        name: str
    else:
        name = _DefaultName()
    namespace: str | None = None

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        if name is not None:
            self.name = name
        self.settings = settings

    def list_tools(self) -> list[Callable[..., Any]]:
        """Return the public methods marked with `@tool`: inherited ones first, in the order of definition."""
        members: dict[str, Any] = {}
        for owner in reversed(type(self).__mro__):
            members.update(vars(owner))
        return [
            getattr(self, name) for name, member in members.items() if name[0] != "_" and _is_marked(member)
        ]

    async def open(self) -> None:
        """Called before the first call of a tool; a subclass may make it a plain function."""

    async def close(self) -> None:
        """Called after the last call of a tool; a subclass may make it a plain function."""


def _is_marked(member: Any) -> bool:
    return is_marked(member) or is_marked(getattr(member, "__func__", None))


class APIResponse(Response):
    """A response of an API, with the attribute names of httpx."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def reason_phrase(self) -> str:
        from http import HTTPStatus  # memory: most servers call no API

        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @property
    def text(self) -> str:
        charset = re.search(r"charset=[\"']?([\w.:-]+)", self.headers.get("content-type", ""), re.IGNORECASE)
        try:
            return self.content.decode(charset[1] if charset else "utf-8-sig", "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        try:
            return codec.decode(self.text)
        except ValueError:
            raise APIError(f"{self.label}: the response is not JSON", status=self.status_code) from None

    def parse(self) -> Any:
        """Return the data of the response: JSON, else text, else bytes; `{}` for an empty body.

        A body with a JSON content type must be JSON. Any other is parsed as JSON where it is an object or an
        array; a single number or word stays text.
        """
        body, kind = self.content.strip(), self.headers.get("content-type", "").lower()
        if not body:
            return {}
        if kind.partition(";")[0].strip().endswith(("/json", "+json")):
            return self.json()
        if body[:1] in (b"{", b"["):
            try:
                return codec.decode(self.text)
            except ValueError:
                pass  # not JSON after all
        if not kind.startswith("text/") and "charset=" not in kind:
            try:
                return self.content.decode()
            except UnicodeDecodeError:
                return self.content
        return self.text

    def raise_for_status(self) -> APIResponse:
        """Return self, or raise APIError with the status and the API's message. Redirects are errors too."""
        if self.is_success:
            return self
        body = _hide_credentials(self, self.text[:_MAX_ERROR_BODY])
        is_redirect = 300 <= self.status_code < 400
        text = "redirects are not followed" if is_redirect else _error_text(body)
        message = f"{self.label} answered {self.status_code} {self.reason_phrase}".rstrip()
        message += f": {text}" if text else ""
        wait_s = parse_retry_after(self.headers) if self.status_code in (429, 503) else None
        message += "" if wait_s is None else f"; try again in {wait_s:.0f} s"
        raise APIError(message, status=self.status_code, body=body)


def _hide_credentials(response: Response, text: str) -> str:
    """Remove credentials of the request: some APIs repeat a bad key in their error."""
    sent = [*response.request.headers.items(), *response.request.url.params.multi_items()]
    for value in (value for name, value in sent if _SECRET_NAME.search(name)):
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= 6:
                text = text.replace(secret, "[hidden]")
    return text


def _error_text(body: str) -> str:
    """Return the message in the body of an error, on one line, without markup and control characters."""
    try:
        text = _find_message(codec.decode(body)) or body
    except ValueError:
        import html  # memory: its table of entities is for HTML pages only

        text = html.unescape(_MARKUP.sub(" ", body))
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"


def _find_message(data: Any, depth: int = 0) -> str:
    """Return the message in the JSON of an error, under the usual keys."""
    if isinstance(data, str):
        return data.strip()
    if depth > 4 or not isinstance(data, dict | list) or not data:
        return ""
    if isinstance(data, list):
        return _find_message(data[0], depth + 1)
    keys = ("message", "error_description", "error", "detail", "msg", "title")
    text = next((found for key in keys if (found := _find_message(data.get(key), depth + 1))), "")
    more = _find_message(data.get("errors"), depth + 1)
    return f"{text} ({more})" if text and more and more != text else text or more


class CallOptions(TypedDict, total=False):
    """Options of every HTTP method besides path, `params` and `data`. At most one of the bodies."""

    headers: Mapping[str, Any] | None
    json: Any  # a JSON body
    form: Mapping[str, Any] | None  # an encoded form
    files: Any  # a multipart form, with its fields in `data` or `form`
    content: bytes | str | None  # a raw body
    content_type: str | None  # of `data`; by default JSON
    timeout_s: float | None


class _Call(NamedTuple):
    path: str
    data: Any
    params: Mapping[str, Any] | None
    options: CallOptions

    def to_request(self) -> RequestOptions:
        """Encode `data` by its content type; text and bytes are encoded already."""
        if unknown := self.options.keys() - CallOptions.__annotations__.keys():
            known = ", ".join(("params", "data", *CallOptions.__annotations__))
            raise TypeError(f"unknown option: {', '.join(sorted(unknown))} (options: {known})")
        request: dict[str, Any] = {name: value for name, value in self.options.items() if value is not None}
        stated, form = request.pop("content_type", None), request.pop("form", None)
        kind = (
            (stated or (_MULTIPART if "files" in request else "application/json")).partition(";")[0].lower()
        )
        if self.data is not None:
            if form is not None:
                raise TypeError("give data= or form=, not both")
            if kind in (_FORM, _MULTIPART) and not isinstance(self.data, str | bytes):
                form = self.data
            elif kind.endswith("json") and not isinstance(self.data, str | bytes):
                if "json" in request:
                    raise TypeError("give data= or json=, not both")
                request["json"] = self.data
            else:
                request["content"], stated = self.data, stated or kind
        if stated and kind != _MULTIPART:
            request["headers"] = {"content-type": stated, **request.get("headers", {})}
        return cast(RequestOptions, request | {"params": self.params, "data": form})


def _without_body(
    path: str, params: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
) -> _Call:
    return _Call(path, None, params, options)


def _with_body(
    path: str, data: Any = None, params: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
) -> _Call:
    return _Call(path, data, params, options)


def _verb(
    method: str, shape: Callable[P, _Call], send: Callable[[APIApplication, str, _Call], R]
) -> Callable[Concatenate[APIApplication, P], R]:
    """Return a method for an HTTP verb: with the parameters of `shape` and the result of `send`."""

    def verb(self: APIApplication, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return send(self, method, shape(*args, **kwargs))

    parameters = inspect.signature(shape).parameters.values()
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    verb.__dict__["__signature__"] = inspect.Signature([this, *parameters])
    verb.__doc__ = f"Send a {method} request. {send.__doc__} For options see CallOptions."
    return verb


def _respond(app: APIApplication, method: str, call: _Call) -> APIResponse:
    """Return the response, with any status, for `_handle_response`."""
    return APIResponse(**vars(app._find_client().request(method, call.path, **app._with_timeout(call))))


def _read(app: APIApplication, method: str, call: _Call) -> Any:
    """Return the parsed data. Raises APIError for an error status."""
    return app._handle_response(_respond(app, method, call))


async def _arespond(app: APIApplication, method: str, call: _Call) -> APIResponse:
    """Return an awaitable of the response, with any status, for `_handle_response`."""
    return APIResponse(
        **vars(await app._find_client().arequest(method, call.path, **app._with_timeout(call)))
    )


async def _aread(app: APIApplication, method: str, call: _Call) -> Any:
    """Return an awaitable of the parsed data. Raises APIError for an error status."""
    return app._handle_response(await _arespond(app, method, call))


class APIApplication(Application):
    """An application that calls an HTTP API.

    `base_url`, `headers` and `timeout_s` may be set on the class, by the constructor or later: every request
    looks them up. A path may be relative or a full URL, but it cannot leave the base URL.
    """

    base_url: str = ""
    headers: Mapping[str, str] = {}
    timeout_s: float = 30.0
    integration: Any = None
    _client: HTTPClient | None = None

    def __init__(
        self,
        base_url: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        name: str | None = None,
        integration: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(name, **settings)
        given = {"base_url": base_url, "headers": headers, "timeout_s": timeout_s, "integration": integration}
        vars(self).update((key, value) for key, value in given.items() if value is not None)

    get = _verb("GET", _without_body, _read)
    delete = _verb("DELETE", _without_body, _read)
    post = _verb("POST", _with_body, _read)
    put = _verb("PUT", _with_body, _read)
    patch = _verb("PATCH", _with_body, _read)

    aget = _verb("GET", _without_body, _aread)
    adelete = _verb("DELETE", _without_body, _aread)
    apost = _verb("POST", _with_body, _aread)
    aput = _verb("PUT", _with_body, _aread)
    apatch = _verb("PATCH", _with_body, _aread)

    _get = _verb("GET", _without_body, _respond)
    _delete = _verb("DELETE", _without_body, _respond)
    _post = _verb("POST", _with_body, _respond)
    _put = _verb("PUT", _with_body, _respond)
    _patch = _verb("PATCH", _with_body, _respond)

    _aget = _verb("GET", _without_body, _arespond)
    _adelete = _verb("DELETE", _without_body, _arespond)
    _apost = _verb("POST", _with_body, _arespond)
    _aput = _verb("PUT", _with_body, _arespond)
    _apatch = _verb("PATCH", _with_body, _arespond)

    def _handle_response(self, response: APIResponse) -> Any:
        """Return the data of a response, or raise APIError with the API's message."""
        return response.raise_for_status().parse()

    def _get_headers(self) -> Mapping[str, str]:
        """Return headers of the current request, by default the integration's credentials."""
        credentials: Mapping[str, Any] = getattr(self.integration, "get_credentials", dict)()
        if credentials.get("headers"):
            return cast(Mapping[str, str], credentials["headers"])
        tokens = (credentials.get(name) for name in ("api_key", "API_KEY", "apiKey", "access_token"))
        token = next(filter(None, tokens), None)
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _find_client(self) -> HTTPClient:
        client = self._client
        if client is None or client.base_url != self.base_url:
            with _client_lock:  # several threads may make the first request at once
                client = self._client
                if client is None or client.base_url != self.base_url:
                    client = self._client = HTTPClient(self.base_url, headers=self._default_headers)
        return client

    def _default_headers(self) -> Mapping[str, str]:
        return {**self.headers, **self._get_headers()}

    def _with_timeout(self, call: _Call) -> RequestOptions:
        request = call.to_request()
        request.setdefault("timeout_s", self.timeout_s)
        return request


class ApplicationSource(MemorySource):
    """An application: the callables of its `list_tools`."""

    def accepts(self, target: Any) -> bool:
        return is_application(target)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        name = type(target).__name__
        try:
            listed = list(target.list_tools())
        except Exception as error:
            renames = "__name__" in str(error)
            raise SourceError(
                f"{name}.list_tools() failed: {type(error).__name__}: {error}",
                source=locate(type(target)),
                hint="a bound method cannot be renamed: give a prefix with namespace=" if renames else None,
            ) from None
        batch = options.read_each(_opened(item) for item in listed if not isinstance(item, str))
        for item in listed:
            if isinstance(item, str):  # the name of a module would not be the application's tool
                text = f"{name}.list_tools() must return callables, got {item!r}"
                batch.findings.append(InvalidToolError(text, source=locate(type(target))).finding)
        if not listed:
            batch.findings.append(Finding("no-tools", "warning", f"{name} lists no tools"))
        batch.tools = [_set_owner(tool, target) for tool in batch.tools]
        return batch


def _opened(method: Any) -> Any:
    """Return a method with `**kwargs` as a tool that takes any further argument; anything else as it is."""
    flags = getattr(getattr(find_function(method), "__code__", None), "co_flags", 0)
    if not flags & inspect.CO_VARKEYWORDS or flags & inspect.CO_VARARGS or isinstance(method, Component):
        return method
    marked = marked_options(method)
    if marked.input_schema is not None:
        return method
    name = marked.name or name_of(method)
    return Tool(inspect_handler(method, name), name, marked, "open", method)


def is_application(value: Any) -> bool:
    """Return whether a value has `list_tools`. A client, where that is async, is not an application."""
    try:
        lister = getattr(value, "list_tools", None)
    except Exception:
        return False  # for example a proxy that is not ready
    return callable(lister) and not inspect.iscoroutinefunction(lister)


def _set_owner(tool: Component, app: Any) -> Component:
    """Return the tool with `app` as its owner, unless a nested application owns it."""
    if tool.owner is not None:
        return tool
    tool = copy(tool)
    tool.owner = app
    namespace = getattr(app, "namespace", None)
    if isinstance(namespace, str) and tool.namespace is None:
        tool.namespace = namespace
    return tool

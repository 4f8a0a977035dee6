"""Applications: classes whose methods are tools, and those among them that speak to an HTTP API.

`Application` lists its tools; nothing else in toolcrib asks for the class, an object with `list_tools` will
do. `APIApplication` adds the verbs of HTTP and turns an API's answers into data, and its complaints into
errors a model can act on. Both keep the names that applications written for universal-mcp rely on.

Knows what an answer means. Refuses to know addresses and connections, which `outbound` guards, and how a
method becomes a tool.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack, cast

from toolcrib.errors import APIError
from toolcrib.http_client import Outbound, RequestOptions, Response
from toolcrib.tool import is_marked
from toolcrib.validation import codec

MAX_WORDS = 500
"""How much of an API's complaint is shown."""

_MAX_COMPLAINT = 10_000  # how much of it is looked at
_BRANDS = re.compile(
    "BitBucket|ClickUp|GitHub|GitLab|HubSpot|LinkedIn|OpenAI|PayPal|SendGrid|WhatsApp|YouTube"
)
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^<>]*>")
_SECRET_NAME = re.compile(
    r"(?i)appid|auth(?!ors?$)|cookie|credential|key$|passw|pwd|secret|session|signature|token"
)
_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_opening = threading.Lock()

P = ParamSpec("P")
R = TypeVar("R")


class _NameOfClass:
    """`GitHubApp` is "github", `OpenWeatherApp` is "open_weather", unless a class or an object says else."""

    def __get__(self, instance: object, owner: type) -> str:
        name = _BRANDS.sub(lambda brand: brand[0].capitalize(), owner.__name__)
        name = re.sub("(App|Application)$", "", name) or name
        return _WORD_STARTS.sub("_", name).lower().strip("_")


class Application:
    """A class whose methods are tools. Mark them with `@tool`, or override `list_tools`.

    `namespace`, on the class or on an object, is the prefix its tools get in a registry. Settings that no
    class along the way asks for are kept in `settings`.
    """

    if TYPE_CHECKING:
        name: str
    else:
        name = _NameOfClass()
    namespace: str | None = None

    def __init__(self, name: str | None = None, **settings: Any) -> None:
        if name is not None:
            self.name = name
        self.settings = settings

    def list_tools(self) -> list[Callable[..., Any]]:
        """The public methods that `@tool` marked: inherited ones first, each where it was first defined."""
        members: dict[str, Any] = {}
        for owner in reversed(type(self).__mro__):
            members.update(vars(owner))
        return [
            getattr(self, name) for name, member in members.items() if name[0] != "_" and _is_marked(member)
        ]

    async def open(self) -> None:
        """Called before the first tool is; a subclass may make it a plain function."""

    async def close(self) -> None:
        """Called when no tool will be called any more; a subclass may make it a plain function."""


def _is_marked(member: Any) -> bool:
    return is_marked(member) or is_marked(getattr(member, "__func__", None))


class APIResponse(Response):
    """An API's answer, with the names that users of httpx know."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def reason_phrase(self) -> str:
        from http import HTTPStatus  # most servers speak to no API: what only they need costs memory

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
            raise APIError(
                f"{self.label} answered something that is not JSON", status=self.status_code
            ) from None

    def parse(self) -> Any:
        """The data of the answer: JSON, else text, else bytes; `{}` where the body is empty.

        A body that calls itself JSON must be JSON. One that does not is still read as JSON when it is an
        object or an array; a lone number or word stays the text it is.
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
                pass  # it only looked like JSON
        if not kind.startswith("text/") and "charset=" not in kind:
            try:
                return self.content.decode()
            except UnicodeDecodeError:
                return self.content
        return self.text

    def raise_for_status(self) -> APIResponse:
        """Itself, or an APIError with the status and the API's own words. A redirect is no answer either."""
        if self.is_success:
            return self
        body = _conceal(self, self.text[:_MAX_COMPLAINT])
        words = "a redirect, which is not followed" if 300 <= self.status_code < 400 else _words_of(body)
        message = f"{self.label} answered {self.status_code} {self.reason_phrase}".rstrip()
        message += f": {words}" if words else ""
        wait_s = (
            _seconds_until(self.headers.get("retry-after", "")) if self.status_code in (429, 503) else None
        )
        message += "" if wait_s is None else f"; try again in {wait_s} s"
        raise APIError(message, status=self.status_code, body=body)


def _conceal(response: Response, text: str) -> str:
    """Take out the credentials that were sent: some APIs repeat a bad key in their complaint."""
    sent = [*response.request.headers.items(), *response.request.url.params.multi_items()]
    for value in (value for name, value in sent if _SECRET_NAME.search(name)):
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= 6:
                text = text.replace(secret, "[hidden]")
    return text


def _words_of(body: str) -> str:
    """What an error's body says, in one line without markup or invisible characters."""
    try:
        words = _words_in(codec.decode(body)) or body
    except ValueError:
        import html  # brings a table of all entities, and only pages have them

        words = html.unescape(_MARKUP.sub(" ", body))
    words = " ".join("".join(c if c.isprintable() else " " for c in words).split())
    return words if len(words) <= MAX_WORDS else words[: MAX_WORDS - 1] + "…"


def _words_in(data: Any, depth: int = 0) -> str:
    """The words in an error's JSON, wherever the usual habits put them."""
    if isinstance(data, str):
        return data.strip()
    if depth > 4 or not isinstance(data, dict | list) or not data:
        return ""
    if isinstance(data, list):
        return _words_in(data[0], depth + 1)
    keys = ("message", "error_description", "error", "detail", "msg", "title")
    words = next((found for key in keys if (found := _words_in(data.get(key), depth + 1))), "")
    more = _words_in(data.get("errors"), depth + 1)
    return f"{words} ({more})" if words and more and more != words else words or more


def _seconds_until(moment: str) -> int | None:
    """Retry-After is a number of seconds or a date."""
    if moment.isdecimal() and len(moment) < 8:
        return int(moment)
    try:
        then = datetime.strptime(moment, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0, round((then - datetime.now(UTC)).total_seconds()))


class CallOptions(TypedDict, total=False):
    """What every verb takes besides a path, `params` and `data`. One body at a time; None is none."""

    headers: Mapping[str, Any] | None
    json: Any  # a body of JSON
    form: Mapping[str, Any] | None  # a form
    files: Any  # a multipart form, its fields in `data` or `form`
    content: bytes | str | None  # a body as it is
    content_type: str | None  # what `data` is; JSON where it is not said
    timeout_s: float | None


class _Ask(NamedTuple):
    path: str
    data: Any
    params: Mapping[str, Any] | None
    options: CallOptions

    def to_request(self) -> RequestOptions:
        """`data` follows its content type; text and bytes are taken as encoded already."""
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


def _reading(path: str, params: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]) -> _Ask:
    return _Ask(path, None, params, options)


def _writing(
    path: str, data: Any = None, params: Mapping[str, Any] | None = None, **options: Unpack[CallOptions]
) -> _Ask:
    return _Ask(path, data, params, options)


def _verb(
    method: str, shape: Callable[P, _Ask], send: Callable[[APIApplication, str, _Ask], R]
) -> Callable[Concatenate[APIApplication, P], R]:
    """A method for one verb of HTTP: `shape` gives it its parameters, `send` its result."""

    def verb(self: APIApplication, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return send(self, method, shape(*args, **kwargs))

    parameters = inspect.signature(shape).parameters.values()
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    verb.__dict__["__signature__"] = inspect.Signature([this, *parameters])
    verb.__doc__ = f"{method} `path`: {send.__doc__} CallOptions lists the options."
    return verb


def _respond(app: APIApplication, method: str, ask: _Ask) -> APIResponse:
    """the response, whatever its status, for `_handle_response`."""
    return APIResponse(**vars(app._door().request(method, ask.path, **app._with_timeout(ask))))


def _read(app: APIApplication, method: str, ask: _Ask) -> Any:
    """the parsed data; an error status raises APIError."""
    return app._handle_response(_respond(app, method, ask))


async def _arespond(app: APIApplication, method: str, ask: _Ask) -> APIResponse:
    """the response, whatever its status, for `_handle_response`; to be awaited."""
    return APIResponse(**vars(await app._door().arequest(method, ask.path, **app._with_timeout(ask))))


async def _aread(app: APIApplication, method: str, ask: _Ask) -> Any:
    """the parsed data; an error status raises APIError; to be awaited."""
    return app._handle_response(await _arespond(app, method, ask))


class APIApplication(Application):
    """An application in front of an HTTP API.

    `base_url`, `headers` and `timeout_s` may be set on the class, by the constructor or later: they are
    looked up with every request, which then cannot leave the base address. A path may be relative or full.
    """

    base_url: str = ""
    headers: Mapping[str, str] = {}
    timeout_s: float = 30.0
    integration: Any = None
    _outbound: Outbound | None = None

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

    get = _verb("GET", _reading, _read)
    delete = _verb("DELETE", _reading, _read)
    post = _verb("POST", _writing, _read)
    put = _verb("PUT", _writing, _read)
    patch = _verb("PATCH", _writing, _read)

    aget = _verb("GET", _reading, _aread)
    adelete = _verb("DELETE", _reading, _aread)
    apost = _verb("POST", _writing, _aread)
    aput = _verb("PUT", _writing, _aread)
    apatch = _verb("PATCH", _writing, _aread)

    _get = _verb("GET", _reading, _respond)
    _delete = _verb("DELETE", _reading, _respond)
    _post = _verb("POST", _writing, _respond)
    _put = _verb("PUT", _writing, _respond)
    _patch = _verb("PATCH", _writing, _respond)

    _aget = _verb("GET", _reading, _arespond)
    _adelete = _verb("DELETE", _reading, _arespond)
    _apost = _verb("POST", _writing, _arespond)
    _aput = _verb("PUT", _writing, _arespond)
    _apatch = _verb("PATCH", _writing, _arespond)

    def _handle_response(self, response: APIResponse) -> Any:
        """The data of a response, or an APIError that says what the API says."""
        return response.raise_for_status().parse()

    def _get_headers(self) -> Mapping[str, str]:
        """What `headers` cannot know beforehand; override it. By default the integration's credentials."""
        credentials: Mapping[str, Any] = getattr(self.integration, "get_credentials", dict)()
        if credentials.get("headers"):
            return cast(Mapping[str, str], credentials["headers"])
        tokens = (credentials.get(name) for name in ("api_key", "API_KEY", "apiKey", "access_token"))
        token = next(filter(None, tokens), None)
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        door, self._outbound = self._outbound, None
        if door is not None:
            await door.aclose()

    def _door(self) -> Outbound:
        door = self._outbound
        if door is None or door.base_url != self.base_url:
            with _opening:  # many threads may come for the first request at once
                door = self._outbound
                if door is None or door.base_url != self.base_url:
                    door = self._outbound = Outbound(self.base_url, headers=self._standing_headers)
        return door

    def _standing_headers(self) -> Mapping[str, str]:
        return {**self.headers, **self._get_headers()}

    def _with_timeout(self, ask: _Ask) -> RequestOptions:
        request = ask.to_request()
        request.setdefault("timeout_s", self.timeout_s)
        return request

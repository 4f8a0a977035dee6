"""The outbound HTTP client: for APIs, keys and documents.

A request cannot leave its base URL, redirects are not followed, header values have no line breaks, and the
size of a response is limited. Failures are APIErrors that a model can act on, without query strings, header
values and credentials. Cookies are not kept, because one client serves many callers.

Only this module imports httpx2, whose client keeps connections and knows the proxies of the environment.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import ssl
import threading
import time
import weakref
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
from urllib.parse import unquote

from toolcrib.errors import APIError, ConfigurationError
from toolcrib.validation import codec

if TYPE_CHECKING:
    import httpx2
    from httpx2 import ServerSentEvent as ServerSentEvent

# --- addresses and headers -----------------------------------------------------------------------------

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?:/([^/?#]*))?(.*)")
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding"})


class RefusedError(ValueError):
    """A request that is not sent. The text never repeats the request, which may hold a secret."""


@dataclass(frozen=True)
class Address:
    scheme: str
    host: str
    port: int
    userinfo: str
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        match = _ABSOLUTE.fullmatch(url)
        if match is None or match[1].lower() not in _DEFAULT_PORTS:
            raise RefusedError("only http and https URLs are supported")
        scheme = match[1].lower()
        userinfo, _, authority = (match[2] or "").rpartition("@")
        host = _HOST.fullmatch(authority)
        if host is None or int(host[2] or 0) > 65535 or "\\" in userinfo:
            raise RefusedError("the URL has no valid host")
        return cls(scheme, host[1].lower(), int(host[2] or _DEFAULT_PORTS[scheme]), userinfo, match[3])

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host if self.port == _DEFAULT_PORTS[self.scheme] else self.authority}"


def _check_path(path: str) -> None:
    """Refuse paths that a server may read differently, however often it decodes them."""
    if "\\" in path:
        raise RefusedError("the path contains a backslash")
    for _ in range(4):
        if any(part.partition(";")[0].strip() in (".", "..") for part in re.split(r"[/\\]", path)):
            raise RefusedError("the path contains a '.' or '..' segment")
        if _CONTROL.search(path):
            raise RefusedError("the path contains a line break or another control character")
        path, before = unquote(path), path
        if path == before:
            return
    raise RefusedError("the path is percent-encoded too many times")


def resolve(base: Address | None, path: str) -> tuple[Address, str, str]:
    """Return the address of a request, its path with the query, and the path as messages may show it.

    Messages do not show the path of the base URL: it can contain a token. A `#` is sent encoded, because a
    value inserted into a path means it literally, and a fragment is never sent.
    """
    if _CONTROL.search(path):
        raise RefusedError("the URL contains a line break or another control character")
    if path.startswith("//"):
        raise RefusedError("the path names another host")
    address = Address.parse(path) if _ABSOLUTE.match(path) else base
    if address is None:
        raise RefusedError("base_url is not set: a full http or https URL is required")
    if address is not base:
        path = address.path
        if base and (address.origin != base.origin or address.userinfo not in ("", base.userinfo)):
            raise RefusedError(f"the URL leaves {base.origin}")
    elif path and not path.startswith("?"):
        path = address.path.rstrip("/") + "/" + path.lstrip("/")
    else:
        path = address.path + path
    route, mark, query = path.replace("#", "%23").partition("?")
    _check_path(route)
    prefix = base.path.rstrip("/") if base else ""
    if route != prefix and not route.startswith(f"{prefix}/"):
        raise RefusedError("the URL leaves the base path")
    shown = "".join(c if c.isprintable() else "?" for c in route[len(prefix) :][:200])
    return base or address, (route or "/") + mark + query, shown or "/"


def clean_headers(headers: Mapping[str, Any] | None) -> dict[str, str]:
    cleaned = {}
    for name, value in (headers or {}).items():
        if value is None:
            continue
        if not _HEADER_NAME.fullmatch(name):
            raise RefusedError("the name of a header is invalid")
        if name.lower() in _OWN_HEADERS:
            raise RefusedError(f"the header {name} is set by the client")
        text = str(value).strip(" \t")
        if _CONTROL.search(text.replace("\t", " ")):
            raise RefusedError(f"the header {name} contains a line break or another control character")
        cleaned[name.lower()] = text
    return cleaned


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address; a name like 127.example.org is not."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def fold_address(address: str | None) -> str:
    """Return the key to count a client address under: an IPv6 address counts as its /64 network."""
    if address is None or ":" not in address:
        return address or ""
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, which is a number or a date; None without a valid one."""
    from email.utils import parsedate_to_datetime  # start-up time

    text = headers.get("retry-after", "").strip()
    try:
        if len(text) < 16 and text.replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except (ValueError, OverflowError):
        return None


# --- requests ------------------------------------------------------------------------------------------

MAX_BYTES = 16 * 1024 * 1024
_FAILURES = (  # exceptions of httpx2 and their messages; the first match counts
    ("ConnectTimeout", "cannot connect to {authority} within {time_s:g} s"),
    ("PoolTimeout", "all connections are in use and none became free within {time_s:g} s"),
    ("TimeoutException", "no response within {time_s:g} s"),
    ("ConnectError", "cannot connect to {authority}"),
    ("ProxyError", "the proxy cannot connect to {authority}"),
    ("DecodingError", "the response has an invalid compression"),
    ("LocalProtocolError", "the request cannot be sent"),
    ("HTTPError", "{authority} closed the connection before the response was complete"),
)
_NEVER_SENT = ("ConnectTimeout", "PoolTimeout", "ConnectError", "ProxyError")


def _engine() -> Any:
    """Import httpx2 with the first request: it takes longer than the rest of toolcrib."""
    import httpx2

    return httpx2


logging.getLogger("httpx2").addFilter(lambda _: not _is_ours.get())


def _cause_of(error: BaseException | None) -> str:
    """Return the end of a message: why a connection failed, if it was not simply refused."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f": the certificate is not trusted ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return ": the TLS handshake failed"
        if isinstance(error, socket.gaierror):
            return ": unknown host"
        error = error.__cause__ or error.__context__
    return ""


class RequestOptions(TypedDict, total=False):
    """Options of `request` and `arequest` besides method and path. At most one kind of body."""

    params: Mapping[str, Any] | None  # added to the query; None is left out, a list repeats the name
    headers: Mapping[str, Any] | None
    json: Any  # a JSON body, None included
    data: Mapping[str, Any] | None  # a form
    files: Any  # a multipart form, together with `data`
    content: bytes | str | None  # a raw body
    timeout_s: float | None  # for the whole exchange


@dataclass(frozen=True)
class Response:
    """A response, completely read."""

    label: str  # "GET /weather": the request as messages may show it
    status_code: int
    headers: Mapping[str, str]  # case-insensitive
    content: bytes = field(repr=False)
    request: httpx2.Request = field(repr=False)


def _choose_body(sent: dict[str, str], own_type: bool, options: RequestOptions) -> dict[str, Any]:
    """Return the body arguments of httpx2. The kind of body sets the content type, unless headers do."""
    data, files, content = options.get("data"), options.get("files"), options.get("content")
    if sum(("json" in options, data is not None or bool(files), content is not None)) > 1:
        raise TypeError("give one body: json=, data= with or without files=, or content=")
    if "json" in options:
        if not own_type and "json" not in sent.get("content-type", ""):
            sent["content-type"] = "application/json"
        try:
            return {"content": codec.encode(options["json"])}
        except codec.NotFiniteError as error:
            raise RefusedError(f"{error.path or 'the body'} is {error.value}, which is not JSON") from None
    if files or (data is not None and not own_type):
        sent.pop("content-type", None)  # httpx2 sets it, with the boundary
    return {"data": data, "files": files, "content": content}


@dataclass
class _Exchange:
    """A request in progress, with its limits and the label that messages show."""

    label: str
    authority: str
    request: httpx2.Request
    timeout_s: float
    max_bytes: int
    deadline: float
    body: bytearray = field(default_factory=bytearray)

    @contextmanager
    def converting_errors(self) -> Iterator[None]:
        """Raise APIError for exceptions of httpx2, without repeating their text."""
        engine = _engine()
        reached, cause = True, ""
        try:
            yield
            return
        except TimeoutError:
            text = "no response within {time_s:g} s"
        except engine.HTTPError as error:
            kind, text = next(item for item in _FAILURES if isinstance(error, getattr(engine, item[0])))
            reached = kind not in _NEVER_SENT
            cause = _cause_of(error) if kind == "ConnectError" else ""
            if "location header" in str(error):
                text = "redirect to an invalid address"
        text = text.format(authority=self.authority, time_s=self.timeout_s)
        raise APIError(f"{self.label}: {text}{cause}", reached=reached) from None

    def take(self, chunk: bytes, answer: httpx2.Response) -> None:
        self.body += chunk
        if len(self.body) > self.max_bytes:
            limit = f"{self.max_bytes} bytes" if self.max_bytes < 1 << 20 else f"{self.max_bytes >> 20} MiB"
            raise APIError(f"{self.label}: the response is larger than {limit}", status=answer.status_code)
        if time.monotonic() > self.deadline:
            raise TimeoutError  # each single read of a slow response may be in time

    def response(self, answer: httpx2.Response) -> Response:
        return Response(self.label, answer.status_code, answer.headers, bytes(self.body), self.request)


class InvalidEventsError(ValueError):
    """A stream is not one of server-sent events, or has one that is too large."""


class Stream:
    """A response that is being received."""

    def __init__(self, exchange: _Exchange, answer: httpx2.Response) -> None:
        self._exchange = exchange
        self._answer = answer
        self.status_code: int = answer.status_code
        self.headers: Mapping[str, str] = answer.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, without a limit."""
        with self._exchange.converting_errors():
            async with aclosing(self._answer.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def events(self, max_bytes: int) -> AsyncGenerator[ServerSentEvent, None]:
        """Yield server-sent events as they arrive. Raises InvalidEventsError."""
        engine = _engine()
        with self._exchange.converting_errors():
            try:
                async with aclosing(aiter(engine.EventSource(self._answer, max_bytes))) as events:
                    async for event in events:
                        yield event
            except engine.SSEError as error:
                raise InvalidEventsError(str(error)) from None


_DIRECT = ("all://localhost", "all://127.0.0.1", "all://[::1]")
"""Hosts that are never asked through a proxy."""
_is_ours: ContextVar[bool] = ContextVar("_is_ours", default=False)


def _settings(max_connections: int) -> dict[str, Any]:
    """Return the settings of a client of httpx2. It keeps no cookies, because it serves many callers."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy  # httpx2 has imported it

    return {
        "limits": _engine().Limits(max_connections=max_connections),
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=())),
        "mounts": dict.fromkeys(_DIRECT),
    }


@contextmanager
def _unlogged() -> Iterator[None]:
    """Send a request of ours: the log of httpx2 would repeat its query."""
    token = _is_ours.set(True)
    try:
        yield
    finally:
        _is_ours.reset(token)


async def _keep_open(client: httpx2.AsyncClient) -> AsyncGenerator[None, None]:
    """Close a client with its event loop: a loop that ends closes its async generators."""
    try:
        yield
    finally:
        await client.aclose()


@dataclass(eq=False, repr=False)
class HTTPClient:
    """An HTTP client for one base URL, or for any http and https URL where none is given.

    Safe to use from several threads and event loops: one connection pool serves all threads, and each loop
    has its own. It may be used again after `close`.
    """

    base_url: str = ""
    _: KW_ONLY
    headers: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None
    auth: tuple[str, str] | None = None  # instead of user and password in the base URL
    timeout_s: float = 30.0
    max_bytes: int = MAX_BYTES
    max_connections: int = 100

    def __post_init__(self) -> None:
        try:
            self._base = resolve(None, self.base_url)[0] if self.base_url else None
            if self._base and ("?" in self._base.path or "#" in self._base.path):
                raise RefusedError("only a scheme, a host and a path are allowed")
        except RefusedError as error:
            raise ConfigurationError(f"invalid URL: {error}", key="base_url") from None
        self._lock = threading.Lock()
        self._client: tuple[httpx2.Client, Callable[[], object]] | None = None
        self._loop_clients: dict[Any, tuple[httpx2.AsyncClient, AsyncGenerator[None, None]]] = {}

    def load(self) -> None:
        """Import httpx2 now, so that the first request takes no longer than others."""
        _engine()

    def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request and return the response with any status; for options see RequestOptions."""
        exchange = self._prepare(method, path, options)
        with exchange.converting_errors(), _unlogged():
            answer = self._thread_client().send(exchange.request, stream=True)
            try:
                for chunk in answer.iter_bytes():
                    exchange.take(chunk, answer)
            finally:
                answer.close()
        return exchange.response(answer)

    async def arequest(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request from an event loop, see `request`."""
        exchange = self._prepare(method, path, options)
        with exchange.converting_errors(), _unlogged():
            async with asyncio.timeout(exchange.deadline - time.monotonic()):
                client = await self._loop_client()
                answer = await client.send(exchange.request, stream=True)
                try:
                    async with aclosing(answer.aiter_bytes()) as chunks:
                        async for chunk in chunks:
                            exchange.take(chunk, answer)
                finally:
                    await answer.aclose()
        return exchange.response(answer)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Stream, None]:
        """Send a request and yield the response, with any status, while it is received.

        `timeout_s` applies to connecting and sending only. The size is not limited.
        """
        exchange = self._prepare(method, path, options)
        exchange.request.extensions["timeout"]["read"] = None
        with exchange.converting_errors(), _unlogged():
            client = await self._loop_client()
            answer = await client.send(exchange.request, stream=True)
        try:
            yield Stream(exchange, answer)
        finally:
            with exchange.converting_errors():
                await answer.aclose()

    def close(self) -> None:
        """Close the connections of threads. Those of an event loop close with `aclose` or with the loop."""
        with self._lock:
            held, self._client = self._client, None
        if held is not None:
            held[1]()

    async def aclose(self) -> None:
        """Close all connections, also those of other running loops."""
        self.close()
        while self._loop_clients:
            loop, (client, keeper) = self._loop_clients.popitem()
            if loop is asyncio.get_running_loop():
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)

    def _prepare(self, method: str, path: str, options: RequestOptions) -> _Exchange:
        if unknown := options.keys() - RequestOptions.__annotations__.keys():
            raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
        engine, method = _engine(), method.upper()
        defaults = self.headers() if callable(self.headers) else self.headers
        timeout_s = options.get("timeout_s") or self.timeout_s
        try:
            address, target, shown = resolve(self._base, path)
            url, base = engine.URL(address.origin + target), engine.URL(address.origin)
            if url.userinfo or (url.scheme, url.netloc) != (base.scheme, base.netloc):
                raise RefusedError("the URL is ambiguous")
            params = {k: v for k, v in (options.get("params") or {}).items() if v is not None}
            own = clean_headers(options.get("headers"))
            sent = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": "toolcrib"}
            sent |= clean_headers(defaults) | own
            login = ":".join(self.auth or unquote(address.userinfo).partition(":")[::2])
            if login != ":" and "authorization" not in sent:
                sent["authorization"] = "Basic " + b64encode(login.encode()).decode()
            request = engine.Request(
                method,
                url.copy_merge_params(params) if params else url,
                **_choose_body(sent, "content-type" in own, options),
                headers=[(name.encode(), value.encode()) for name, value in sent.items()],
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout_s)},
            )
        except RefusedError as error:
            raise APIError(f"{method} refused: {error}") from None
        except (ValueError, engine.InvalidURL):
            raise APIError(f"{method} refused: the URL or a value in it cannot be encoded") from None
        deadline = time.monotonic() + timeout_s
        return _Exchange(f"{method} {shown}", address.authority, request, timeout_s, self.max_bytes, deadline)

    def _thread_client(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                client = _engine().Client(**_settings(self.max_connections))
                self._client = client, weakref.finalize(self, client.close)
            return self._client[0]

    async def _loop_client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        held = self._loop_clients.get(loop)
        if held is None:
            for ended in [each for each in list(self._loop_clients) if each.is_closed()]:
                self._loop_clients.pop(ended, None)
            client = _engine().AsyncClient(**_settings(self.max_connections))
            held = self._loop_clients[loop] = client, _keep_open(client)
            await anext(held[1])
        return held[0]

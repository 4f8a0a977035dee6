"""Callers must authenticate first, on every path; streams end with the credentials of their reader."""

from __future__ import annotations

import asyncio
import base64
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from tests.support.servers.token_issuer import KeyServer, Mint, key_server
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth, OAuth, Policy, Telemetry
from toolcrib.policy.enforcer import PolicyEnforcer
from toolcrib.protocol import Reply
from toolcrib.transports.http import auth as http_auth
from toolcrib.transports.http.auth import AuthMiddleware
from toolcrib.transports.http.request import Head, Request
from toolcrib.transports.http.response import Response

__all__ = ["key_server"]

ISSUER = "http://127.0.0.1:9"


class Stream:
    """Goes on until it is ended."""

    is_ended = False

    def begin(self, writer: Any) -> None: ...

    def lost(self) -> None: ...

    def end(self) -> None:
        self.is_ended = True


def make_request(path: str, method: str, headers: dict[str, str]) -> Request:
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request(Head(method, path, fields), remote="127.0.0.1")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


class AuthServer:
    """A middleware, and those who came through."""

    def __init__(self, policy: Policy, host: str = "127.0.0.1") -> None:
        self.enforcer = PolicyEnforcer(policy)
        self.middleware = AuthMiddleware(self.enforcer, "server", host=host, path="/mcp")
        self.visitors: list[str] = []

    def handle(self, request: Request) -> Any:
        self.visitors.append(request.principal.name)
        return Response(200, b"welcome")

    def open_stream(self, **headers: str) -> Stream:
        """A stream that a caller with these headers has opened."""
        request = make_request("/mcp", "GET", headers)
        assert self.middleware.admit(request) is None
        stream = Stream()
        self.middleware.watch(stream, request)
        return stream

    def come(
        self, path: str = "/mcp", method: str = "POST", **headers: str
    ) -> Response | Awaitable[Response]:
        request = make_request(path, method, headers)
        refusal = self.middleware.admit(request)
        if refusal is None or isinstance(refusal, Reply):
            return refusal or self.handle(request)
        return self.wait(refusal, request)

    async def wait(self, admission: Awaitable[Response | None], request: Request) -> Response:
        return await admission or self.handle(request)

    def ask(self, *given: Any, **headers: str) -> Response:
        answer = self.come(*given, **headers)
        assert isinstance(answer, Reply)
        return answer


@asynccontextmanager
async def open_server(*, host: str = "127.0.0.1", **demands: Any) -> AsyncIterator[AuthServer]:
    server = AuthServer(Policy(**demands), host)
    await server.middleware.open(8123)
    try:
        yield server
    finally:
        await server.middleware.close()


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    file = tmp_path / "keys.json"
    return file, Keys(file).create("ana")[0]


async def test_only_who_shows_a_key_is_heard_and_by_its_name(keys: tuple[Path, str]) -> None:
    async with open_server(auth=Auth(keys=keys[0])) as server:
        refused = server.ask()
        assert (refused.status, dict(refused.headers)[b"www-authenticate"]) == (
            401,
            b'Bearer realm="toolcrib"',
        )
        for wrong in ({"authorization": "Bearer x"}, {"x_api_key": f"{keys[1]}x"}, {"authorization": "x"}):
            assert server.ask(**wrong).status in (400, 401)
        assert not server.visitors
        assert server.ask(authorization=f"Bearer {keys[1]}").body == b"welcome"
        assert server.ask(x_api_key=keys[1]).body == b"welcome"
        assert server.visitors == ["key:ana"] * 2


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages", "/metrics", "/", "/nowhere", "//mcp"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT"])
async def test_no_path_and_no_method_leads_around_it(keys: tuple[Path, str], path: str, method: str) -> None:
    async with open_server(auth=Auth(keys=keys[0]), telemetry=Telemetry(prometheus=True)) as server:
        assert server.ask(path, method).status == 401
        assert not server.visitors


async def test_before_it_is_open_and_after_it_is_closed_nobody_comes_in(keys: tuple[Path, str]) -> None:
    server = AuthServer(Policy(auth=Auth(keys=keys[0])))
    for _ in range(2):
        early = server.ask(x_api_key=keys[1])
        assert (early.status, dict(early.headers)[b"retry-after"]) == (503, b"1")
        await server.middleware.open(8123)
        await server.middleware.open(8123)  # again does no harm
        assert server.ask(x_api_key=keys[1]).status == 200
        await server.middleware.close()
        await server.middleware.close()
    assert server.ask(x_api_key=keys[1]).status == 503
    assert server.visitors == ["key:ana"] * 2


async def test_where_it_is_optional_who_shows_nothing_is_anonymous(keys: tuple[Path, str]) -> None:
    async with open_server(auth=Auth(keys=keys[0], optional=True)) as server:
        assert server.ask().status == 200
        assert server.ask(x_api_key="wrong").status == 401
        assert server.ask(x_api_key=keys[1]).status == 200
        assert server.visitors == ["anonymous", "key:ana"]


async def test_anyone_who_comes_too_often_is_told_when_to_come_again(keys: tuple[Path, str]) -> None:
    async with open_server(
        auth=Auth(keys=keys[0], requests="2/h"), telemetry=Telemetry(prometheus=True)
    ) as server:
        for _ in range(2):
            assert server.ask(x_api_key=keys[1]).status == 200
        refused = server.ask(x_api_key=keys[1])
        assert refused.status == 429
        assert 1 <= int(dict(refused.headers)[b"retry-after"]) <= 1800
        assert b"Too many requests" in refused.body
        assert len(server.visitors) == 2
        assert server.enforcer.telemetry is not None
        figures = server.enforcer.telemetry.exposition()[1].decode()
        assert '"429"' in figures


async def test_anyone_who_guesses_is_stopped(keys: tuple[Path, str]) -> None:
    async with open_server(auth=Auth(keys=keys[0], max_failures="3/h")) as server:
        statuses = [server.ask(x_api_key=f"guess-{number}").status for number in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        assert server.ask(x_api_key=keys[1]).status == 200  # one good key from there is still good


# --- pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["metrics:read", "figures"])
async def test_metrics_require_their_scope(keys: tuple[Path, str], scope: str) -> None:
    watcher, _ = Keys(keys[0]).create("watcher", [scope])
    telemetry = Telemetry(prometheus=True, metrics_scope=scope)
    async with open_server(auth=Auth(keys=keys[0]), telemetry=telemetry) as server:
        assert server.ask("/metrics", "GET").status == 401
        refused = server.ask("/metrics", "GET", x_api_key=keys[1])
        assert refused.status == 403
        assert f"Metrics require the scope {scope}".encode() in refused.body
        challenge = dict(refused.headers)[b"www-authenticate"]
        assert f'Bearer error="insufficient_scope", scope="{scope}"'.encode() in challenge
        shown = server.ask("/metrics", "GET", x_api_key=watcher)
        assert (shown.status, dict(shown.headers)) == (200, {b"cache-control": b"no-store"})
        assert shown.content_type.startswith(b"text/plain")
        assert b'refusals_total{kind="403"} 1' in shown.body
        posted = server.ask("/metrics", "POST", x_api_key=watcher)
        assert (posted.status, dict(posted.headers)) == (405, {b"allow": b"GET, HEAD"})
        assert not server.visitors


async def test_anonymous_callers_cannot_read_metrics_unless_they_are_open(keys: tuple[Path, str]) -> None:
    for is_open, expected in ((False, [401, 403]), (True, [200, 200])):
        telemetry = Telemetry(prometheus=True, metrics_open=is_open)
        async with open_server(auth=Auth(keys=keys[0], optional=True), telemetry=telemetry) as server:
            shown = [server.ask("/metrics", "GET"), server.ask("/metrics", "GET", x_api_key=keys[1])]
            assert [answer.status for answer in shown] == expected
            assert server.ask().status == 200


async def test_metrics_can_be_open_and_have_another_path(keys: tuple[Path, str]) -> None:
    telemetry = Telemetry(prometheus=True, metrics_open=True, metrics_path="/figures")
    async with open_server(auth=Auth(keys=keys[0]), telemetry=telemetry) as server:
        assert server.ask("/figures", "GET").status == 200
        assert server.ask("/metrics", "GET").status == 401
        assert server.ask("/mcp").status == 401


async def test_without_auth_everybody_can_call_and_read_metrics() -> None:
    async with open_server(telemetry=Telemetry(prometheus=True)) as server:
        assert server.ask().body == b"welcome"
        assert server.ask("/metrics", "GET").status == 200
        assert server.visitors == ["local"]
        assert server.middleware.challenge(["a"]) == ()


async def test_without_prometheus_there_are_no_metrics(keys: tuple[Path, str]) -> None:
    async with open_server(auth=Auth(keys=keys[0])) as server:
        assert server.ask("/metrics", "GET", x_api_key=keys[1]).body == b"welcome"  # a path like any other


@pytest.mark.parametrize(
    ("host", "resource"),
    [("127.0.0.1", "http://127.0.0.1:8123/mcp"), ("::1", "http://[::1]:8123/mcp")],
)
async def test_anyone_who_gives_tokens_is_told_to_everybody(host: str, resource: str) -> None:
    auth = Auth(oauth=[OAuth(issuer=ISSUER, scopes=["orders:read"])])
    async with open_server(host=host, auth=auth) as server:
        for path in ("", "/mcp"):
            document = server.ask(f"/.well-known/oauth-protected-resource{path}", "GET")
            assert (document.status, document.content_type) == (200, b"application/json")
            assert f'"resource": "{resource}"'.encode() in document.body
            assert ISSUER.encode() in document.body
        assert server.ask("/.well-known/oauth-protected-resource", "POST").status == 405
        challenge = dict(server.ask().headers)[b"www-authenticate"]
        assert b"/.well-known/oauth-protected-resource/mcp" in challenge
        assert b'scope="orders:read"' in challenge
        lacking = dict(server.middleware.challenge(["orders:write"]))[b"www-authenticate"]
        assert lacking.startswith(b'Bearer error="insufficient_scope", scope="orders:write"')


# --- tokens that take time to check ------------------------------------------------------------------


async def test_a_token_is_looked_into_and_a_bad_one_is_refused() -> None:
    head = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"1"}').rstrip(b"=").decode()
    claims = base64.urlsafe_b64encode(f'{{"iss":"{ISSUER}"}}'.encode()).rstrip(b"=").decode()
    async with open_server(auth=Auth(oauth=[OAuth(issuer=ISSUER)])) as server:
        talk = server.come(authorization=f"Bearer {head}.{claims}.c2lnbmF0dXJl")
        if not isinstance(talk, Response):
            talk = await asyncio.wait_for(talk, 10)
        assert talk.status in (401, 503)
        assert not server.visitors


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_the_metrics_path_cannot_be_the_path_of_the_server(path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuthServer(Policy(telemetry=Telemetry(prometheus=True, metrics_path=path)))
    assert caught.value.key == "telemetry.metrics_path"
    AuthServer(Policy(telemetry=Telemetry(metrics_path=path)))  # nobody shows any


# --- streams that outlast a key ----------------------------------------------------------------------


async def test_a_stream_ends_soon_after_the_key_that_opened_it(
    keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_auth, "CHECK_S", 0.01)
    file, secret = keys
    other = Keys(file).create("ben")[0]
    async with open_server(auth=Auth(keys=file, optional=True)) as server:
        ana, ben = server.open_stream(x_api_key=secret), server.open_stream(authorization=f"Bearer {other}")
        nobody = server.open_stream()
        Keys(file).revoke("ana")
        await until(lambda: ana.is_ended)
        assert not ben.is_ended
        assert not nobody.is_ended


async def test_checking_goes_on_after_a_check_that_failed_and_forgets_streams_that_have_ended(
    keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_auth, "CHECK_S", 0.005)
    tries: list[object] = []

    def fail_once(credentials: object) -> bool:
        tries.append(credentials)
        if len(tries) == 1:
            raise OSError("not now")
        return False

    async with open_server(auth=Auth(keys=keys[0])) as server:
        monkeypatch.setattr(server.middleware._authenticator, "is_valid", fail_once)
        ana = server.open_stream(x_api_key=keys[1])
        await until(lambda: ana.is_ended)
        assert "cannot be checked" in caplog.text
        server.open_stream(x_api_key=keys[1])
        gc.collect()
        assert not server.middleware._streams
    assert len(tries) == 2


async def test_a_caller_with_a_token_waits_for_the_keys_and_comes_in(key_server: KeyServer) -> None:
    key_server.describe()
    mint = Mint(key_server.origin, resource="http://127.0.0.1:8123/mcp")
    async with open_server(auth=Auth(oauth=[OAuth(issuer=key_server.origin)])) as server:
        waiting = server.come(authorization=f"Bearer {mint()}")
        assert not isinstance(waiting, Reply)
        answer = await asyncio.wait_for(waiting, 10)
        assert (answer.status, answer.body) == (200, b"welcome")
        assert len(server.visitors) == 1


async def test_keys_that_cannot_be_read_are_named_by_where_they_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("no keys")
    file.chmod(0o600)
    with pytest.raises(ConfigurationError) as raised:
        async with open_server(auth=Auth(keys=file)):
            pass
    assert raised.value.key == "auth.keys"

"""The way in and what takes time: tokens whose keys are fetched first, and streams that outlast a key."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.token_issuer import KeyServer, Mint, key_server
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth, OAuth, Policy
from toolcrib.policy.auth.api_keys import KeyFile
from toolcrib.policy.enforcer import PolicyEnforcer
from toolcrib.protocol import Reply
from toolcrib.transports.http import auth as http_auth
from toolcrib.transports.http.auth import AuthMiddleware
from toolcrib.transports.http.request import Head, Request
from toolcrib.transports.http.response import Response

__all__ = ["key_server"]


class Stream:
    """Goes on until it is ended."""

    def __init__(self) -> None:
        self.is_ended = False

    def begin(self, writer: Any) -> None:
        pass

    def lost(self) -> None:
        pass

    def end(self) -> None:
        self.is_ended = True


@asynccontextmanager
async def open_door(auth: Auth) -> AsyncIterator[AuthMiddleware]:
    middleware = AuthMiddleware(
        PolicyEnforcer(Policy(auth=auth)), "key_server", host="127.0.0.1", path="/mcp"
    )
    await middleware.open(8123)
    try:
        yield middleware
    finally:
        await middleware.close()


def come(middleware: AuthMiddleware, handle: Callable[[Request], Any], **headers: str) -> Any:
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    request = Request(Head("GET", "/mcp", fields), remote="127.0.0.1")
    refusal = middleware.admit(request)
    if isinstance(refusal, Reply):
        return refusal
    if refusal is not None:
        return _wait(refusal, request, handle)
    outcome = handle(request)
    if not isinstance(outcome, Reply):
        middleware.watch(outcome, request)
    return outcome


async def _wait(
    admission: Awaitable[Response | None], request: Request, handle: Callable[[Request], Any]
) -> Any:
    return await admission or handle(request)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    file = tmp_path / "keys.json"
    return file, KeyFile(file).create("ana")[0]


async def test_a_stream_ends_soon_after_the_key_that_opened_it(
    keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_auth, "CHECK_S", 0.01)
    file, secret = keys
    other = KeyFile(file).create("ben")[0]
    async with open_door(Auth(keys=file)) as middleware:
        ana, ben = Stream(), Stream()
        assert come(middleware, lambda _: ana, x_api_key=secret) is ana
        assert come(middleware, lambda _: ben, authorization=f"Bearer {other}") is ben
        KeyFile(file).revoke("ana")
        await until(lambda: ana.is_ended)
        assert not ben.is_ended


async def test_a_stream_of_one_who_showed_nothing_goes_on(
    keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_auth, "CHECK_S", 0.01)
    file, secret = keys
    async with open_door(Auth(keys=file, optional=True)) as middleware:
        nobody, ana = Stream(), Stream()
        assert come(middleware, lambda _: nobody) is nobody
        come(middleware, lambda _: ana, x_api_key=secret)
        KeyFile(file).revoke("ana")
        await until(lambda: ana.is_ended)
        assert not nobody.is_ended


async def test_checking_goes_on_after_a_check_that_failed_and_ends_with_the_server(
    keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_auth, "CHECK_S", 0.005)
    tries: list[object] = []

    def fail_once(credentials: object) -> bool:
        tries.append(credentials)
        if len(tries) == 1:
            raise OSError("not now")
        return False

    async with open_door(Auth(keys=keys[0])) as middleware:
        monkeypatch.setattr(middleware._authenticator, "is_valid", fail_once)
        ana = Stream()
        come(middleware, lambda _: ana, x_api_key=keys[1])
        await until(lambda: ana.is_ended)
        assert "cannot be checked" in caplog.text
        come(middleware, lambda _: Stream(), x_api_key=keys[1])
        gc.collect()
        assert not middleware._streams
    assert len(tries) == 2


async def test_a_caller_with_a_token_waits_for_the_keys_and_comes_in(key_server: KeyServer) -> None:
    key_server.describe()
    mint = Mint(key_server.origin, resource="http://127.0.0.1:8123/mcp")
    seen: list[str] = []

    def handle(request: Request) -> Response:
        seen.append(request.principal.name)
        return Response(200, b"welcome")

    async with open_door(Auth(oauth=[OAuth(issuer=key_server.origin)])) as middleware:
        waiting = come(middleware, handle, authorization=f"Bearer {mint()}")
        answer = await asyncio.wait_for(waiting, 10)
        assert (answer.status, answer.body) == (200, b"welcome")
        assert len(seen) == 1


async def test_keys_that_cannot_be_read_are_named_by_where_they_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("no keys")
    file.chmod(0o600)
    with pytest.raises(ConfigurationError) as raised:
        async with open_door(Auth(keys=file)):
            pass
    assert raised.value.key == "auth.keys"

"""The authenticator and those who stay: how long what they came in with is good."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from tests.support.records.key_files import Keys
from tests.support.servers.token_issuer import RESOURCE, Clock, KeyServer, Mint, make_key
from toolcrib.context import Principal
from toolcrib.policy import Auth, OAuth
from toolcrib.policy.auth import Authenticator, Credential
from toolcrib.policy.auth.api_keys import GRACE_S, create_key
from toolcrib.state.sqlite.state import SQLiteState


def issuer(key_server: KeyServer, path: str = "") -> OAuth:
    label = path.strip("/") or "oauth"
    return OAuth(issuer=f"{key_server.origin}{path}", jwks_uri=key_server.jwks_uri, label=label)


async def come(authenticator: Authenticator, **headers: str) -> Credential | None:
    """Come in, and stay."""
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    found = authenticator.authenticate(fields, None)
    assert isinstance(await found if inspect.isawaitable(found) else found, Principal)
    return authenticator.credential_of(fields)


async def stay(authenticator: Authenticator, **headers: str) -> Credential:
    shown = await come(authenticator, **headers)
    assert shown is not None
    assert authenticator.is_valid(shown)
    return shown


@pytest.fixture
def file(tmp_path: Path, wall: Clock) -> Keys:
    return Keys(tmp_path / "keys.json", wall=wall)


@pytest.fixture
async def authenticator(file: Keys, now: Clock, wall: Clock) -> Authenticator:
    file.create("first")
    authenticator = Authenticator(Auth(keys=file.path, optional=True), resource=None, now=now, wall=wall)
    await authenticator.open()
    return authenticator


@pytest.mark.parametrize("shown", ["Bearer {}", "bearer   {} ", "{}"])
async def test_a_key_is_good_until_it_is_revoked(
    authenticator: Authenticator, file: Keys, now: Clock, shown: str
) -> None:
    secret, _ = file.create("ana")
    now.at += 1
    name = "x_api_key" if shown == "{}" else "authorization"
    known = await stay(authenticator, **{name: shown.format(secret)})
    assert secret not in repr(known)
    file.revoke("ana")
    assert authenticator.is_valid(known)  # the file is looked at once a second
    now.at += 1
    assert not authenticator.is_valid(known)


async def test_a_key_is_good_until_it_expires(
    authenticator: Authenticator, file: Keys, now: Clock, wall: Clock
) -> None:
    secret, _ = file.create("ana", expires=wall.at + 60)
    now.at += 1
    known = await stay(authenticator, x_api_key=secret)
    wall.at += 59
    assert authenticator.is_valid(known)
    wall.at += 1
    assert not authenticator.is_valid(known)


async def test_no_key_is_good_once_the_file_could_not_be_read_for_long(
    authenticator: Authenticator, file: Keys, now: Clock
) -> None:
    secret, _ = file.create("ana")
    now.at += 1
    known = await stay(authenticator, x_api_key=secret)
    file.path.write_text("no keys")
    now.at += 1
    assert authenticator.is_valid(known)
    now.at += GRACE_S
    assert not authenticator.is_valid(known)


async def test_anyone_who_shows_nothing_is_not_followed(authenticator: Authenticator) -> None:
    assert await come(authenticator) is None


@pytest.mark.parametrize("paths", [("",), ("", "/other")])
async def test_a_token_is_good_until_it_ends(
    key_server: KeyServer, now: Clock, wall: Clock, paths: tuple[str, ...]
) -> None:
    issuers = [issuer(key_server, path) for path in paths]
    authenticator = Authenticator(Auth(oauth=issuers), resource=RESOURCE, now=now, wall=wall)
    token = Mint(key_server.origin, wall=wall)()
    known = await stay(authenticator, authorization=f"Bearer {token}", x_api_key="not looked at")
    wall.at += 300 + issuers[0].leeway_s - 1
    assert authenticator.is_valid(known)
    wall.at += 1
    assert not authenticator.is_valid(known)
    await authenticator.close()


async def test_no_memory_holds_a_whole_token(key_server: KeyServer, now: Clock, wall: Clock) -> None:
    authenticator = Authenticator(
        Auth(oauth=[issuer(key_server), issuer(key_server, "/other")]), resource=RESOURCE, now=now, wall=wall
    )
    other = Mint(f"{key_server.origin}/other", key=make_key(kid="two"), wall=wall)
    key_server.publish(make_key(), make_key(kid="two"))
    tokens = [Mint(key_server.origin, wall=wall)(), other()]
    for token in tokens:
        await stay(authenticator, authorization=f"Bearer {token}")
    kept = repr([vars(authenticator), *(vars(each) for each in authenticator._issuers.values())])
    assert all(token not in kept for token in tokens)
    await authenticator.close()


async def test_keys_of_a_database_are_read_in_the_background(
    tmp_path: Path, wall: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.auth.authenticator.REFRESH_S", 0.01)
    state = SQLiteState(tmp_path / "state.db")
    secret, _ = await create_key(state.keys, "ana")
    authenticator = Authenticator(Auth(keys="state"), resource=None, keys=state.keys)
    await authenticator.open()
    headers = {b"x-api-key": secret.encode()}
    try:
        admitted = authenticator.authenticate(headers, None)
        assert isinstance(admitted, Principal)
        assert admitted.name == "key:ana"
        credential = authenticator.credential_of(headers)
        assert credential is not None
        await state.keys.revoke("ana")
        async with asyncio.timeout(10):
            while isinstance(authenticator.authenticate(headers, None), Principal):
                await asyncio.sleep(0.01)
        assert not authenticator.is_valid(credential)
        other, _ = await create_key(state.keys, "ana")
        async with asyncio.timeout(10):
            while not isinstance(authenticator.authenticate({b"x-api-key": other.encode()}, None), Principal):
                await asyncio.sleep(0.01)
    finally:
        await authenticator.close()
        await state.close()

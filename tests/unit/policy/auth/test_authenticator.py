"""The authenticator: whose key it is, what everybody else is told, and how soon a change counts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from tests.support.system.manual_clock import Clock
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth
from toolcrib.policy.auth import ANONYMOUS, Authenticator, Rejection
from toolcrib.policy.auth import authenticator as module
from toolcrib.protocol.modern import REPEATED

NOW_S = 1_800_000_000.0
WRONG = "Invalid or expired credentials"
CHALLENGE = f'Bearer error="invalid_token", error_description="{WRONG}"'.encode()
NOT_GOOD = Rejection(401, WRONG, ((b"www-authenticate", CHALLENGE),))
UNSHOWN = Rejection(401, "Credentials are required", ((b"www-authenticate", b'Bearer realm="toolcrib"'),))
Open = Callable[..., Authenticator]


@pytest.fixture
def now() -> Clock:
    return Clock(50.0)


@pytest.fixture
def wall() -> Clock:
    return Clock(NOW_S)


@pytest.fixture
def file(tmp_path: Path, wall: Clock) -> Keys:
    return Keys(tmp_path / "keys.json", wall=wall)


@pytest.fixture
def ana(file: Keys) -> bytes:
    return file.create("ana", ["read"], ["support"], NOW_S + 60)[0].encode()


@pytest.fixture
def make(file: Keys, now: Clock, wall: Clock) -> Open:
    def make(**options: Any) -> Authenticator:
        auth = Auth(keys=file.path, **options)
        return Authenticator(auth, resource=None, repeated=REPEATED, now=now, wall=wall)

    return make


@pytest.fixture
def authenticator(make: Open, ana: bytes) -> Authenticator:
    return make()


def show(authenticator: Authenticator, value: bytes, address: str | None = "192.0.2.1") -> Any:
    return authenticator.authenticate({b"authorization": value}, address)


def misread(words: str) -> Rejection:
    text = f'Bearer error="invalid_request", error_description="{words}"'
    return Rejection(400, words, ((b"www-authenticate", text.encode()),))


# --- who gets in ---


@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"BEARER ", b" Bearer   ", b"\tBearer "])
def test_a_key_says_who_calls(authenticator: Authenticator, ana: bytes, file: Keys, scheme: bytes) -> None:
    binding = f"key:ana:{file.entries()[0].id}"
    expected = Principal("key:ana", frozenset({"read"}), frozenset({"support"}), binding)
    assert show(authenticator, scheme + ana) == expected
    assert show(authenticator, scheme + ana) == expected
    assert show(authenticator, scheme + ana + b" ") == expected


def test_a_key_comes_in_its_own_header_too(authenticator: Authenticator, ana: bytes) -> None:
    first = authenticator.authenticate({b"x-api-key": ana}, None)
    assert isinstance(first, Principal)
    assert authenticator.authenticate({b"x-api-key": ana}, None) is first
    assert authenticator.authenticate({b"x-api-key": b" " + ana + b"\t"}, None) is first
    assert authenticator.authenticate({b"x-api-key": ana, b"authorization": b"Bearer " + ana}, None) is first


def test_two_headers_that_differ_are_refused_though_one_is_good(
    authenticator: Authenticator, ana: bytes
) -> None:
    words = "Authorization and X-API-Key differ: send one of them"
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    assert isinstance(authenticator.authenticate({b"x-api-key": ana}, None), Principal)
    other = ana[:-1]
    for bearer, key in ((ana, other), (other, ana), (ana, b"")):
        headers = {b"authorization": b"Bearer " + bearer, b"x-api-key": key}
        assert authenticator.authenticate(headers, None) == misread(words)
    assert authenticator.authenticate({b"authorization": b"Basic eDp5", b"x-api-key": ana}, None) == UNSHOWN


def test_anything_that_is_good_in_one_header_is_not_for_that_good_in_the_other(
    authenticator: Authenticator, ana: bytes
) -> None:
    show(authenticator, b"Bearer " + ana)
    authenticator.authenticate({b"x-api-key": ana}, None)
    assert isinstance(authenticator.authenticate({b"x-api-key": b"Bearer " + ana}, None), Rejection)
    assert isinstance(show(authenticator, ana), Rejection)


def test_anyone_who_shows_nothing_is_asked_for_credentials(authenticator: Authenticator) -> None:
    assert authenticator.authenticate({b"host": b"x"}, None) == UNSHOWN


def test_anyone_who_shows_nothing_is_anonymous_where_that_will_do(make: Open, ana: bytes) -> None:
    authenticator = make(optional=True)
    assert authenticator.authenticate({}, None) is ANONYMOUS
    assert Principal("anonymous") == ANONYMOUS
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    assert show(authenticator, b"Bearer " + ana[:-1]) == NOT_GOOD
    assert show(authenticator, b"Basic eDp5") == UNSHOWN


# --- who does not ---


@pytest.mark.parametrize(
    "token",
    [b"tck_", b"tck_x", b"tck_" + b"A" * 43 + b"2BxA51", b"x", b"a.b.c", b"A" * 16_384, b"A" * 17_000],
)
def test_whatever_is_not_good_is_told_the_same(authenticator: Authenticator, token: bytes) -> None:
    assert show(authenticator, b"Bearer " + token) == NOT_GOOD
    assert authenticator.authenticate({b"x-api-key": token}, None) == NOT_GOOD


def test_wrong_cut_revoked_and_expired_keys_are_told_the_same(
    authenticator: Authenticator,
    file: Keys,
    wall: Clock,
    now: Clock,
    ana: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bo, bo_key = file.create("bo")
    file.revoke("bo")
    wall.pass_s(60)
    wrong = b"tck_" + b"A" * 43 + b"2BxA51"
    for token in (wrong, ana[:-1], bo.encode(), ana):
        assert show(authenticator, b"Bearer " + token) == NOT_GOOD
    ana_key = file.entries()[0]
    assert [record.getMessage() for record in caplog.records] == [
        "rejected credentials from 192.0.2.1: unknown key",
        "rejected credentials from 192.0.2.1: incomplete or mistyped key",
        f"rejected credentials from 192.0.2.1: revoked key 'bo' ({bo_key.id})",
        f"rejected credentials from 192.0.2.1: expired key 'ana' ({ana_key.id})",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_the_log_says_what_is_wrong_and_never_repeats_it(
    authenticator: Authenticator, caplog: pytest.LogCaptureFixture
) -> None:
    for rest in (b"Bearer {}.{}.{}", b"Bearer {}", b"Basic {}", b"Bearer {} {}", b"Bearer {}\xff"):
        show(authenticator, rest.replace(b"{}", b"canary"), None)
    authenticator.authenticate({b"x-api-key": b"c" * 16_384}, None)
    authenticator.authenticate({b"x-api-key": b"c" * 16_385}, None)
    authenticator.authenticate({b"authorization": REPEATED}, None)
    nothing = "The credentials are not a single key or token"
    assert [record.getMessage() for record in caplog.records] == [
        f"rejected credentials from an unknown address: {reason}"
        for reason in (
            "a token of an unknown issuer",
            "not a key: keys begin with tck_",
            "another scheme than Bearer",
            nothing,
            nothing,
            "incomplete or mistyped key",
            "more than 16384 bytes",
            "Credentials were sent more than once",
        )
    ]


@pytest.mark.parametrize(
    "rest", [b"", b" ", b" a b", b" a,b", b' "a"', b" a\xe4", b" =a", b" a\x00", b" a\tb"]
)
def test_anything_that_is_not_one_token_is_not_understood(authenticator: Authenticator, rest: bytes) -> None:
    words = "The credentials are not a single key or token"
    assert show(authenticator, b"Bearer" + rest) == misread(words)
    assert authenticator.authenticate({b"x-api-key": rest.strip()}, None) == misread(words)


@pytest.mark.parametrize("value", [b"", b"Basic eDp5", b"Bearerx y", b"tck_x", b"Digest a=b", b"Bearer\tx"])
def test_another_scheme_counts_as_no_credentials(authenticator: Authenticator, value: bytes) -> None:
    assert show(authenticator, value) == UNSHOWN


def test_a_header_that_came_twice_is_not_understood(authenticator: Authenticator, ana: bytes) -> None:
    words = "Credentials were sent more than once"
    assert show(authenticator, REPEATED) == misread(words)
    assert authenticator.authenticate({b"x-api-key": REPEATED}, None) == misread(words)
    assert authenticator.authenticate({b"x-api-key": ana, b"authorization": REPEATED}, None) == misread(words)


def test_a_header_that_came_twice_is_refused_however_that_is_written(file: Keys, ana: bytes) -> None:
    authenticator = Authenticator(Auth(keys=file.path, optional=True), resource=None)
    assert isinstance(show(authenticator, REPEATED), Rejection)
    assert isinstance(authenticator.authenticate({b"x-api-key": REPEATED}, None), Rejection)


# --- how soon a change counts ---


def test_a_revoked_key_is_refused_within_a_second(
    authenticator: Authenticator, file: Keys, now: Clock, ana: bytes
) -> None:
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    assert isinstance(authenticator.authenticate({b"x-api-key": ana}, None), Principal)
    file.revoke("ana")
    now.pass_s(0.99)
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    now.pass_s(0.01)
    assert show(authenticator, b"Bearer " + ana) == NOT_GOOD
    assert authenticator.authenticate({b"x-api-key": ana}, None) == NOT_GOOD


def test_a_new_key_is_taken_within_a_second(
    authenticator: Authenticator, file: Keys, now: Clock, ana: bytes
) -> None:
    show(authenticator, b"Bearer " + ana)
    bo = file.create("bo")[0].encode()
    assert show(authenticator, b"Bearer " + bo) == NOT_GOOD
    now.pass_s(1)
    assert show(authenticator, b"Bearer " + bo).name == "key:bo"


def test_a_key_that_expires_is_refused_at_once(authenticator: Authenticator, wall: Clock, ana: bytes) -> None:
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    assert isinstance(authenticator.authenticate({b"x-api-key": ana}, None), Principal)
    wall.pass_s(59.999)
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    wall.pass_s(0.001)
    assert show(authenticator, b"Bearer " + ana) == NOT_GOOD
    assert authenticator.authenticate({b"x-api-key": ana}, None) == NOT_GOOD


def test_a_key_that_never_expires_does_not(
    authenticator: Authenticator, file: Keys, wall: Clock, now: Clock
) -> None:
    bo = file.create("bo")[0].encode()
    assert isinstance(show(authenticator, b"Bearer " + bo), Principal)
    wall.pass_s(NOW_S)
    assert isinstance(show(authenticator, b"Bearer " + bo), Principal)


def test_keys_that_cannot_be_read_for_a_minute_let_nobody_in(
    authenticator: Authenticator, file: Keys, now: Clock, ana: bytes
) -> None:
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    good = file.path.read_bytes()
    file.path.write_text("{")
    now.pass_s(1)
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    now.pass_s(60)
    closed = Rejection(503, "Keys cannot be checked at the moment: try again later", (), 1.0)
    assert show(authenticator, b"Bearer " + ana) == closed
    assert show(authenticator, b"Bearer tck_x") == closed
    file.path.write_bytes(good)
    now.pass_s(1)
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)


def test_a_known_key_is_not_looked_up_again(
    authenticator: Authenticator, ana: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = show(authenticator, b"Bearer " + ana)
    authenticator.authenticate({b"x-api-key": ana}, None)
    monkeypatch.setattr(authenticator, "_check", None)
    assert show(authenticator, b"Bearer " + ana) is first
    assert authenticator.authenticate({b"x-api-key": ana}, None) is first


def test_anything_that_is_known_is_bounded(
    authenticator: Authenticator, ana: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_KNOWN", 3)
    for blanks in range(1, 20):
        assert isinstance(show(authenticator, b"Bearer" + b" " * blanks + ana), Principal)
        assert isinstance(authenticator.authenticate({b"x-api-key": b" " * blanks + ana}, None), Principal)
        assert 1 <= len(authenticator._known) <= 3


# --- beginning and end ---


async def test_a_door_opens_only_where_keys_can_be_read(make: Open, file: Keys) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        await make().open()


async def test_a_door_that_is_open_looks_again_a_second_later(
    make: Open, file: Keys, now: Clock, ana: bytes
) -> None:
    authenticator = make()
    await authenticator.open()
    file.revoke("ana")
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    now.pass_s(1)
    assert show(authenticator, b"Bearer " + ana) == NOT_GOOD


async def test_a_door_that_was_closed_knows_nobody_and_opens_again(
    authenticator: Authenticator, file: Keys, ana: bytes
) -> None:
    await authenticator.open()
    show(authenticator, b"Bearer " + ana)
    file.revoke("ana")
    await authenticator.close()
    await authenticator.close()
    await authenticator.open()
    assert show(authenticator, b"Bearer " + ana) == NOT_GOOD


async def test_a_door_without_a_single_key_says_so(
    make: Open, file: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    file.path.write_text('{"format": 1, "keys": []}')
    file.path.chmod(0o600)
    await make(optional=True).open()
    assert caplog.messages == []
    await make().open()
    assert caplog.messages == ["there are no keys, so nobody can connect: run toolcrib keys create"]
    file.create("ana")
    caplog.clear()
    await make().open()
    assert caplog.messages == []


# --- how often ---


def test_too_many_failures_from_one_address_have_to_wait(
    make: Open, ana: bytes, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator = make(max_failures="2/min")
    answers = [
        show(authenticator, b"Bearer tck_x"),
        show(authenticator, b"Basic eDp5"),
        show(authenticator, b"Bearer a b"),
    ]
    assert [answer.status for answer in answers] == [401, 401, 429]
    words = "Too many invalid credentials from this address: try again later"
    assert answers[2] == Rejection(429, words, (), 30.0)
    assert len(caplog.records) == 2
    assert show(authenticator, b"Bearer tck_x", "192.0.2.2") == NOT_GOOD
    now.pass_s(30)
    assert show(authenticator, b"Bearer tck_x") == NOT_GOOD


def test_good_credentials_are_never_refused_for_failures(make: Open, ana: bytes) -> None:
    authenticator = make(max_failures="1/min")
    for _ in range(5):
        show(authenticator, b"Bearer tck_x")
    assert isinstance(show(authenticator, b"Bearer " + ana), Principal)
    assert authenticator.authenticate({}, "192.0.2.1") == UNSHOWN


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("what:ever", "what:else", False),
        ("what:ever", "what:ever", True),
        (None, None, True),
        (None, "192.0.2.1", False),
    ],
)
def test_addresses_of_one_network_count_as_one(
    make: Open, ana: bytes, one: str | None, other: str | None, is_same: bool
) -> None:
    authenticator = make(max_failures="1/min")
    assert show(authenticator, b"Bearer x", one).status == 401
    assert show(authenticator, b"Bearer x", other).status == (429 if is_same else 401)


def test_the_log_cannot_be_flooded(
    authenticator: Authenticator, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        assert show(authenticator, b"Bearer x", f"192.0.2.{number}") == NOT_GOOD
    assert len(caplog.records) == 30
    now.pass_s(2)
    show(authenticator, b"Bearer x", "192.0.2.200")
    assert len(caplog.records) == 31


def test_a_caller_may_come_so_often_whatever_key_it_shows(make: Open, ana: bytes, now: Clock) -> None:
    authenticator = make(requests="2/min")
    first, second = Principal("key:ana", binding="one"), Principal("key:ana", binding="two")
    assert [
        authenticator.count_request(first),
        authenticator.count_request(second),
        authenticator.count_request(first),
    ] == [
        None,
        None,
        30.0,
    ]
    assert authenticator.count_request(Principal("key:bo")) is None
    now.pass_s(30)
    assert authenticator.count_request(second) is None


def test_without_a_limit_a_caller_may_come_as_often_as_it_likes(authenticator: Authenticator) -> None:
    assert [authenticator.count_request(ANONYMOUS) for _ in range(100)] == [None] * 100


def test_anyone_who_lacks_a_scope_is_challenged_and_there_is_no_document(
    authenticator: Authenticator,
) -> None:
    words = "The credentials lack a required scope"
    text = f'Bearer error="insufficient_scope", scope="pay", error_description="{words}"'
    assert authenticator.challenge(["pay"]) == ((b"www-authenticate", text.encode()),)
    assert authenticator.metadata("/.well-known/oauth-protected-resource") is None

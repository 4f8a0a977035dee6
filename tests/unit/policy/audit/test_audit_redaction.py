"""Values on the record: only what was asked for, and nothing that looks secret."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.record import REDACTED, Redaction

SECRET_NAMES = """
    password Password PASSWORD db_password userPassword passwd pwd apiKey api_key API-KEY x-api-key key keys
    accessKey accesskey token authToken access_token tokens Authorization auth cookie Cookies secret
    client_secret clientsecret privateKey private_key session session_id sessionId credentials credential
    pin cvv cvc
    card_number creditCard ssn otp jwt signature passphrase passcode bearer X-Auth-Token mysecrets
"""
OTHER_NAMES = "monkey keyboard author pinned opinion amount path compass sessions_x query"


def pick(arguments: dict[str, Any], values: str = "*", *redact: str) -> dict[str, Any] | None:
    return Redaction(values.split(), redact).pick(arguments)


def text(value: str) -> Any:
    return (pick({"note": value}) or {})["note"]


def test_only_what_is_named_is_recorded() -> None:
    order = {"amount": 3, "street": "Elm 1", "lines": [{"sku": "a"}]}
    arguments = {"bucket": "b", "path": "p", "order": order, "path2": 2}
    assert pick(arguments, "bucket") == {"bucket": "b"}
    assert pick(arguments, "path*") == {"path": "p", "path2": 2}
    assert pick(arguments, "order.amount bucket") == {"bucket": "b", "order": {"amount": 3}}
    assert pick(arguments, "order") == {"order": order}
    assert pick(arguments, "nothing") is None
    assert pick(arguments, "street") is None
    assert pick({}, "*") is None


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_a_secret_name_hides_its_value(name: str) -> None:
    assert pick({name: "v", "deep": [{name: {"a": 1}}]}) == {name: REDACTED, "deep": [{name: REDACTED}]}
    assert pick({name: None}) == {name: None}


@pytest.mark.parametrize(
    "name",
    ["monkey", "keyboard", "author", "pinned", "opinion", "amount", "path", "compass", "sessions_x", "query"],
)
def test_other_names_hide_nothing(name: str) -> None:
    assert pick({name: "v"}) == {name: "v"}


PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIB-x\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_x"


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        (PEM, f"-----BEGIN RSA PRIVATE KEY-----{REDACTED}"),
        (f"a {PEM} b", f"a -----BEGIN RSA PRIVATE KEY-----{REDACTED} b"),
        ("-----BEGIN PRIVATE KEY-----\nMIIB", f"-----BEGIN PRIVATE KEY-----{REDACTED}"),
        (JWT, REDACTED),
        (f"see {JWT}, please", f"see {REDACTED}, please"),
        ("AKIA" + "A1B2C3D4" * 2, f"AKIA{REDACTED}"),
        ("ghp_" + "a" * 36, f"ghp_{REDACTED}"),
        ("sk-" + "a" * 20, f"sk-{REDACTED}"),
        ("tck_" + "a" * 40, f"tck_{REDACTED}"),
        ("xoxb-" + "1" * 16, f"xoxb-{REDACTED}"),
        ("Bearer abcdefgh12", f"Bearer {REDACTED}"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: {REDACTED}"),
        ("postgres://ana:hunter2@db/x", f"postgres://ana:{REDACTED}@db/x"),
        ("PASSWORD=hunter2 x", f"PASSWORD={REDACTED} x"),
        ("api_key: abc", f"api_key: {REDACTED}"),
        ("4111 1111 1111 1111", REDACTED),
        ("card 4111-1111-1111-1111.", f"card {REDACTED}."),
        ("4222222222222", REDACTED),
        ("5500 0000 0000 0004", REDACTED),
        ("378282246310005", REDACTED),
        ("6304000000000000000", REDACTED),
        ("63040000000000000000", "63040000000000000000"),
        ("5500 0000 0000 0003", "5500 0000 0000 0003"),
        ("4111111111111112", "4111111111111112"),
        ("411111111111", "411111111111"),
        ("ana@example.com", "ana@example.com"),
        ("the basic idea", "the basic idea"),
        ("https://example.com:80/a@b", "https://example.com:80/a@b"),
        ("x" * 256, "x" * 256),
        ("x" * 257, "x" * 256 + "… (257 characters)"),
        ("x" * 16_385, "[16385 characters]"),
        ("x" * 16_384, "x" * 256 + "… (16384 characters)"),
    ],
)
def test_texts_that_look_secret_are_not_recorded(given: str, recorded: str) -> None:
    assert text(given) == recorded
    assert pick({"list": [given]}) == {"list": [recorded]}


def test_a_secret_is_found_before_a_text_is_cut() -> None:
    assert text("x" * 250 + " " + JWT) == "x" * 250 + " [reda… (261 characters)"


def test_plain_values_stay_and_others_are_named() -> None:
    class Password:
        pass

    assert pick({"a": 1, "b": 1.5, "c": True, "d": None, "e": b"x", "f": Password(), "g": {1}}) == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "[bytes]",
        "f": "[Password]",
        "g": "[set]",
    }
    assert pick({"n": 4111111111111111, "m": 1 << 300, "k": 1 << 200}) == {
        "n": REDACTED,
        "m": REDACTED,
        "k": 1 << 200,
    }
    assert pick({"n": 6304000000000000000, "m": 12345678901234567894}) == {
        "n": REDACTED,
        "m": 12345678901234567894,
    }
    assert pick({"n": 1 << 255, "m": 1 << 256}) == {"n": 1 << 255, "m": REDACTED}


def test_names_are_looked_at_too() -> None:
    assert pick({"map": {JWT: 1}}) == {"map": {REDACTED: 1}}
    assert pick({"map": {"n" * 65: 1, "m" * 64: 2}}) == {"map": {"n" * 64 + "…": 1, "m" * 64: 2}}
    assert pick({"map": {5: 1}}) == {"map": {"5": 1}}
    names = list((pick({"map": {"n" * 512: 1, "m" * 513: 2}}) or {})["map"])
    assert names == ["n" * 64 + "…", "[513 characters]"]


def test_own_names_and_patterns_are_hidden() -> None:
    arguments = {"Diagnosis": "x", "order": {"street": "Elm 1", "city": "X"}, "note": "ticket T-123 is open"}
    assert pick(arguments, "*", "diag*", "order.street", r"re:T-\d+") == {
        "Diagnosis": REDACTED,
        "order": {"street": REDACTED, "city": "X"},
        "note": f"ticket {REDACTED} is open",
    }
    assert pick({"a": {"street": 1}}, "*", "street") == {"a": {"street": REDACTED}}
    assert pick({"re:tall": 1}, "*", "re:tall") == {f"re:{REDACTED}": 1}  # a pattern is about texts


@pytest.mark.parametrize("values", ["*", "order.*", "order.ship.*"])
def test_a_hidden_name_is_known_by_its_whole_path_wherever_picking_began(values: str) -> None:
    arguments = {"order": {"ship": {"street": "Elm 1", "to": {"street": "Oak 2", "town": "X"}}}}
    assert pick(arguments, values, "order.ship.street", "order.ship.to.street") == {
        "order": {"ship": {"street": REDACTED, "to": {"street": REDACTED, "town": "X"}}}
    }


def test_a_named_value_inside_a_secret_name_is_recorded() -> None:
    assert pick({"session": {"count": 3, "id": "x"}}, "session.count") == {"session": {"count": 3}}


def test_a_pattern_that_cannot_be_understood_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"^audit.redact: invalid regular expression '\('"):
        Redaction(["*"], ["re:("])


def test_depth_and_number_are_bounded() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(10):
        deep = {"d": deep}
    assert pick(deep) == {"d": {"d": {"d": {"d": {"d": {"d": "[1 more]"}}}}}}
    assert pick(deep, "*.x") is None
    reached = {"d": {"d": {"d": {"d": {"d": {"x": 1}}}}}}
    assert pick(reached, "*.x") == reached
    assert pick({"d": reached}, "*.x") is None
    wide = (pick({"list": list(range(60))}) or {})["list"]
    assert wide == [*range(50), "[10 more]"]
    many = (pick({"map": {str(n): n for n in range(60)}}) or {})["map"]
    assert many == {**{str(n): n for n in range(50)}, "…": "[10 more]"}
    assert len(pick({f"n{n}": n for n in range(60)}) or {}) == 50


def test_all_parts_together_are_bounded() -> None:
    def count(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + sum(count(item) for item in inner)

    rows = [[[n] * 20 for n in range(20)] for _ in range(20)]
    assert 250 < count(pick({"rows": rows})) < 400
    table = {str(n): {str(m): m for m in range(49)} for n in range(49)}
    assert 250 < count(pick({"table": table})) < 400
    assert 250 < count(pick({f"t{n}": {str(m): m for m in range(49)} for n in range(49)})) < 400


def test_long_texts_count_for_more_than_one_part() -> None:
    texts = (pick({"texts": ["x" * 10_240] * 50}) or {})["texts"]
    assert texts == [*["x" * 256 + "… (10240 characters)"] * 15, "[35 more]"]


def test_a_recursive_value_is_bounded() -> None:
    loop: dict[str, Any] = {"a": 1}
    loop["self"] = loop
    assert pick(loop) is not None
    assert pick(loop, "none.*") is None


@pytest.mark.parametrize(
    "given",
    [
        "DB_PASSWORD=hunter2",
        "PGPASSWORD=hunter2",
        "client_secret=hunter2",
        "AWS_SECRET_ACCESS_KEY=hunter2",
        '{"accessToken": "hunter2"}',
        'password="two words hunter2"',
        "redis://:hunter2@host/0",
        "postgres://u:p@hunter2@host/db",
        "mysql --password hunter2",
        "Authorization: Token hunter2",
        "Cookie: sid=hunter2",
        "sk_test_hunter2hunter2hunter2",
    ],
)
def test_usual_spellings_of_secrets_are_hidden(given: str) -> None:
    assert "hunter2" not in text(given)


def test_a_card_number_is_hidden_as_a_float_too() -> None:
    assert pick({"a": 4111111111111111.0, "b": 1.5}) == {"a": REDACTED, "b": 1.5}


def test_no_text_takes_long() -> None:
    started = time.process_time()
    for sign in ("eyJ-", "eyJaaaaaa-", "://a:", "password ", "bearer ", "-----BEGIN A-----", "1 "):
        pick({"a": [sign * (16_384 // len(sign))] * 250})
    assert time.process_time() - started < 3

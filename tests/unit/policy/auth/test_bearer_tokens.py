"""Tokens as text, and claims: what is read, what is refused, in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers.token_issuer import encode, refused
from toolcrib.policy.auth import tokens
from toolcrib.policy.auth.jwks import InvalidTokenError

NO_TOKEN = "the token is not a signed JWT in compact form"
ALGORITHMS = frozenset({"RS256", "ES256"})
HERE = "https://tools.example.com/mcp"


def write(header: Any = None, claims: Any = None, signature: bytes = b"sig") -> str:
    usual = {"alg": "RS256"}
    return ".".join((encode(usual if header is None else header), encode(claims or {}), encode(signature)))


def refuse(token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        tokens.parse_token(token, ALGORITHMS)
    return str(caught.value)


# --- the text ---


def test_a_token_is_taken_apart() -> None:
    text = write({"alg": "ES256", "kid": "k", "typ": "at+jwt", "x": 1}, {"sub": "ana"})
    read = tokens.parse_token(text, ALGORITHMS)
    assert (read.algorithm, read.kid, read.claims) == ("ES256", "k", {"sub": "ana"})
    assert tokens.parse_token(write(), ALGORITHMS).kid is None


def test_a_token_does_not_show_itself() -> None:
    read = tokens.parse_token(write(claims={"sub": "ana"}), ALGORITHMS)
    assert repr(read) == "Token(algorithm='RS256', kid=None)"


@pytest.mark.parametrize(
    "kind", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "Application/JWT", "at+JWT"]
)
def test_the_types_of_access_tokens_are_read(kind: str) -> None:
    assert tokens.parse_token(write({"alg": "RS256", "typ": kind}), ALGORITHMS).algorithm == "RS256"


@pytest.mark.parametrize(
    "kind",
    ["", "id", "id_token+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt", "JOSE", "application/", 5, None, []],
)
def test_other_types_are_refused(kind: Any) -> None:
    assert refuse(write({"alg": "RS256", "typ": kind})) == "the token's type is not that of an access token"


@pytest.mark.parametrize("name", ["crit", "b64"])
@pytest.mark.parametrize("value", [[], ["exp"], None, True, False])
def test_anything_that_must_be_understood_is_refused(name: str, value: Any) -> None:
    words = refuse(write({"alg": "RS256", name: value}))
    assert words in (f"the token's header has '{name}', which is not supported", NO_TOKEN)


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "RS512", "rs256", "", 5, None, ["RS256"], {}])
def test_only_the_algorithms_that_are_wanted_are_read(algorithm: Any) -> None:
    words = "the token's signature algorithm is not accepted"
    assert refuse(write({"alg": algorithm})) == words
    assert refuse(write({"typ": "JWT"})) == NO_TOKEN


@pytest.mark.parametrize("kid", [5, True, ["k"], {"k": 1}])
def test_a_key_is_named_by_a_text(kid: Any) -> None:
    assert refuse(write({"alg": "RS256", "kid": kid})) == "the token's 'kid' is not a string"


@pytest.mark.parametrize(
    "data",
    [b'{"alg":"RS256","alg":"RS256"}', b'{"a\\u006cg":"none","alg":"RS256"}'],
    ids=["plain", "escaped"],
)
def test_a_member_twice_is_refused_in_both_parts(data: bytes) -> None:
    header = f"{encode(data)}.{encode({})}.AA"
    assert refuse(header) == "the token's header is not JSON, or has a duplicate member"
    payload = f"{encode({'alg': 'RS256'})}.{encode(data)}.AA"
    assert refuse(payload) == "the token's payload is not JSON, or has a duplicate member"


@pytest.mark.parametrize("data", [b"{", b"", b"\xff", b"{'alg':1}"])
def test_both_parts_are_json(data: bytes) -> None:
    assert refuse(f"{encode(data)}.{encode({})}.AA") == NO_TOKEN
    text = f"{encode({'alg': 'RS256'})}.{encode(data)}.AA"
    assert refuse(text) == "the token's payload is not JSON, or has a duplicate member"


@pytest.mark.parametrize("data", [b"[]", b"5", b"null", b'"text"', b'["alg"]', b'"alg"'])
def test_both_parts_are_objects(data: bytes) -> None:
    words = refuse(f"{encode(data)}.{encode({})}.AA")
    assert words in (NO_TOKEN, "the token's header is not a JSON object")
    text = f"{encode({'alg': 'RS256'})}.{encode(data)}.AA"
    assert refuse(text) == "the token's payload is not a JSON object"


# --- issuer and audience ---


@pytest.mark.parametrize(
    "said",
    [..., None, "", "https://login.example.com/", "HTTPS://login.example.com", ["https://login.example.com"]],
)
def test_the_issuer_is_the_very_same_text(said: Any) -> None:
    claims = {} if said is ... else {"iss": said}
    with refused("the token is not from the authorization server of this server"):
        tokens.check_issuer(claims, "https://login.example.com")
    tokens.check_issuer({"iss": "https://login.example.com"}, "https://login.example.com")


@pytest.mark.parametrize(
    "audience",
    [
        HERE,
        [HERE],
        ["https://other.example", HERE],
        "https://TOOLS.example.com:443/mcp",
        "HTTPS://tools.example.com/mcp",
    ],
)
def test_a_token_is_for_those_it_names(audience: Any) -> None:
    tokens.check_purpose({"aud": audience}, HERE)


@pytest.mark.parametrize(
    "audience",
    [
        "https://tools.example.com",
        "https://tools.example.com/",
        "https://tools.example.com/mcp/",
        "https://tools.example.com/MCP",
        "https://tools.example.com/mcp?x=1",
        "https://tools.example.com/mcp#x",
        "http://tools.example.com/mcp",
        "https://tools.example.com:8443/mcp",
        "https://tools.example.com.evil.example/mcp",
        "https://user@tools.example.com/mcp",
        "tools.example.com/mcp",
        " https://tools.example.com/mcp",
        "",
        [],
        ["*"],
    ],
)
def test_a_token_for_others_is_refused(audience: Any) -> None:
    with refused("the token is for another server"):
        tokens.check_purpose({"aud": audience}, HERE)


@pytest.mark.parametrize("audience", [..., None, 5, {HERE: True}, [HERE, 5], [[HERE]]])
def test_an_audience_that_is_not_text_is_refused(audience: Any) -> None:
    claims = {} if audience is ... else {"aud": audience}
    with refused("the token has no audience"):
        tokens.check_purpose(claims, HERE)


@pytest.mark.parametrize(
    ("address", "spelling"),
    [
        ("https://a.example", "https://a.example/"),
        ("https://a.example/", "https://a.example/"),
        ("https://A.Example:443", "https://a.example/"),
        ("https://a.example:80/", "https://a.example:80/"),
        ("http://a.example:80/x/", "http://a.example/x/"),
        ("http://a.example:443/x", "http://a.example:443/x"),
        ("http://[::1]:80/X%20y", "http://[::1]/X%20y"),
        ("urn:a:B", "urn:a:B"),
        ("API://A", "API://A"),
        ("https://", "https://"),
        ("https://u@A.example", "https://u@A.example"),
        ("https://A.example/?q", "https://A.example/?q"),
    ],
)
def test_an_address_has_one_spelling(address: str, spelling: str) -> None:
    assert tokens.normalize_resource(address) == spelling


@pytest.mark.parametrize(
    "claims",
    [
        {"typ": "ID"},
        {"typ": "Refresh"},
        {"typ": "offline"},
        {"typ": "Logout"},
        {"at_hash": "x"},
        {"c_hash": "x"},
    ],
)
def test_anything_that_is_not_an_access_token_is_refused(claims: dict[str, Any]) -> None:
    with refused("the token is not an access token"):
        tokens.check_purpose({"aud": HERE, **claims}, HERE)


@pytest.mark.parametrize("kind", ["Bearer", "access", 5, None])
def test_other_words_about_the_kind_are_fine(kind: Any) -> None:
    tokens.check_purpose({"aud": HERE, "typ": kind}, HERE)


def test_a_token_that_is_bound_to_a_key_is_not_for_anyone_who_carries_it() -> None:
    with refused("the token is bound to a key of its holder, which cannot be checked"):
        tokens.check_purpose({"aud": HERE, "cnf": {"jkt": "x"}}, HERE)


# --- times ---


def test_a_token_counts_from_one_time_to_another() -> None:
    assert tokens.check_times({"exp": 200}, 100.0, 30.0) == (-30.0, 230.0)
    assert tokens.check_times({"exp": 200, "nbf": 120, "iat": 90}, 100.0, 30.0) == (90.0, 230.0)
    assert tokens.check_times({"exp": 200.5, "nbf": 90, "iat": 120}, 100.0, 30.0) == (90.0, 230.5)
    assert tokens.check_times({"exp": 200, "iat": 100}, 100.0, 0) == (100.0, 200.0)


@pytest.mark.parametrize(
    ("claims", "last", "first_bad", "words"),
    [
        ({"exp": 200}, 229.9, 230.0, "the token has expired"),
        ({"exp": 900, "nbf": 200}, 170.0, 169.9, "the token is not valid yet"),
        ({"exp": 900, "iat": 200}, 170.0, 169.9, "the token was issued in the future"),
    ],
)
def test_clocks_may_differ_by_the_leeway(claims: Any, last: float, first_bad: float, words: str) -> None:
    tokens.check_times(claims, last, 30.0)
    with refused(f"{words}"):
        tokens.check_times(claims, first_bad, 30.0)


def test_a_token_without_an_end_is_refused() -> None:
    with refused("the token has no expiration time"):
        tokens.check_times({"nbf": 1}, 100.0, 30.0)


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", [None, "200", True, [200], {}, -1, 1e12])
def test_a_time_is_a_number_of_seconds(name: str, value: Any) -> None:
    with refused(f"the token's '{name}' is not a time"):
        tokens.check_times({"exp": 200, name: value}, 100.0, 30.0)


def test_the_beginning_of_time_is_a_time() -> None:
    assert tokens.check_times({"exp": 200, "nbf": 0, "iat": 0}, 100.0, 30.0) == (-30.0, 230.0)


# --- names, scopes, roles ---


@pytest.mark.parametrize("value", ["", 5, None, ["ana"], "a\nb", "a\x00", "a\u202eb", "a\u200bb", "a" * 513])
def test_a_name_is_short_and_can_be_seen(value: Any) -> None:
    with refused("the token's 'sub' is not a name"):
        tokens.read_name({"sub": value}, "sub")


@pytest.mark.parametrize("value", ["ana", "auth0|5f7c", "Ana Müller", "a" * 512, "*", "x"])
def test_most_names_are_names(value: str) -> None:
    assert tokens.read_name({"sub": value}, "sub") == value
    assert tokens.read_name({"sub": value}, "azp") is None


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, set()),
        ({"scope": ""}, set()),
        ({"scope": "a  b a"}, {"a", "b"}),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scope": "a", "scp": "b"}, {"a"}),
        ({"scp": []}, set()),
    ],
)
def test_scopes_are_words_or_a_list(claims: dict[str, Any], scopes: set[str]) -> None:
    assert tokens.read_scopes(claims) == scopes


@pytest.mark.parametrize("name", ["scope", "scp"])
@pytest.mark.parametrize("value", [5, None, {"a": 1}, ["a", 5]])
def test_scopes_that_are_not_texts_are_refused(name: str, value: Any) -> None:
    with refused(f"the token's '{name}' is not a list of strings"):
        tokens.read_scopes({name: value})


@pytest.mark.parametrize(
    ("claims", "path", "roles"),
    [
        ({"roles": ["a", "b"]}, None, set()),
        ({"roles": ["a", "b"]}, "roles", {"a", "b"}),
        ({"role": "a b"}, "role", {"a b"}),
        ({"realm": {"roles": ["a"]}}, "realm.roles", {"a"}),
        ({"realm.roles": ["b"], "realm": {"roles": ["a"]}}, "realm.roles", {"b"}),
        ({"https://x.example/roles": ["a"]}, "https://x.example/roles", {"a"}),
        ({"realm": {"roles": ["a"]}}, "realm.other", set()),
        ({"realm": ["roles"]}, "realm.roles", set()),
        ({}, "realm.roles", set()),
    ],
)
def test_roles_are_where_the_policy_says(claims: dict[str, Any], path: str | None, roles: set[str]) -> None:
    assert tokens.read_roles(claims, path) == roles


@pytest.mark.parametrize("value", [5, None, {"a": 1}, ["a", 5]])
def test_roles_that_are_not_texts_are_refused(value: Any) -> None:
    with refused("the token's 'roles' is not a list of strings"):
        tokens.read_roles({"groups": value}, "groups")

"""Keys that issuers publish: which are taken, what they fit, and whether they signed."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from tests.support.token_issuer import SCHEMES, encode, make_key, publish, sign
from toolcrib.config.settings import SIGNING_ALGORITHMS
from toolcrib.policy.auth.jwks import MAX_KEYS, KeySet, PublicKey
from toolcrib.policy.auth.tokens import parse_token

RSA = publish(make_key())["keys"][0]
EC = publish(make_key("EC", "P-256"))["keys"][0]
ED = publish(make_key("OKP", "Ed25519"))["keys"][0]
ALGORITHMS = frozenset(SIGNING_ALGORITHMS)
ALL_RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def read(document: Any) -> set[str]:
    """What a key fits; nothing where it is left out."""
    key = PublicKey.parse(document)
    return set() if key is None else set(key.algorithms)


def test_the_type_of_a_key_decides_what_it_fits() -> None:
    assert read(RSA) == ALL_RSA
    assert read(EC) == {"ES256"}
    assert read(publish(make_key("EC", "P-384"))["keys"][0]) == {"ES384"}
    assert read(publish(make_key("EC", "P-521"))["keys"][0]) == {"ES512"}
    assert read(ED) == {"EdDSA", "Ed25519"}
    assert set(SCHEMES) == ALGORITHMS


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({**RSA, "alg": "PS384"}, {"PS384"}),
        ({**ED, "alg": "EdDSA"}, {"EdDSA", "Ed25519"}),
        ({**ED, "alg": "Ed25519"}, {"EdDSA", "Ed25519"}),
        ({**EC, "alg": "ES256"}, {"ES256"}),
        ({**RSA, "use": "sig", "key_ops": ["verify"]}, ALL_RSA),
        ({**RSA, "x5u": "nonsense", "x5c": 5, "unknown": {}}, ALL_RSA),
    ],
)
def test_an_issuer_may_say_what_a_key_is_for(document: dict[str, Any], fits: set[str]) -> None:
    assert read(document) == fits


@pytest.mark.parametrize(
    "document",
    [
        None,
        "key",
        [],
        {},
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"},
        {"kty": "oct"},
        make_key().as_dict(private=True),
        make_key("EC", "P-256").as_dict(private=True),
        *({**RSA, name: "AQAB"} for name in ("d", "p", "q", "dp", "dq", "qi", "oth", "k")),
        {**RSA, "alg": "RS257"},
        {**RSA, "alg": "ES256"},
        {**RSA, "alg": "HS256"},
        {**RSA, "alg": ["RS256"]},
        {**RSA, "alg": ""},
        {**RSA, "use": "enc"},
        {**RSA, "use": None},
        {**RSA, "key_ops": ["encrypt"]},
        {**RSA, "key_ops": "verify"},
        {**RSA, "key_ops": None},
        {**RSA, "kid": 5},
        {**RSA, "kty": "rsa"},
        {**RSA, "kty": ["RSA"]},
        {**RSA, "crv": "P-256"},
        {**RSA, "n": "AQAB"},
        {**RSA, "n": RSA["n"] + "="},
        {**RSA, "n": 5},
        {**RSA, "e": ""},
        {**RSA, "e": "AQ"},
        {**RSA, "e": "Ag"},
        {**RSA, "e": None},
        {"kty": "RSA", "kid": "one"},
        {**EC, "x": EC["y"]},
        {**EC, "y": None},
        {**EC, "crv": "P-384"},
        {**EC, "crv": "secp256k1"},
        {**EC, "crv": ["P-256"]},
        {**ED, "x": "AA"},
        {**ED, "crv": "X25519"},
        {**ED, "crv": "Ed448"},
    ],
)
def test_what_no_token_may_be_checked_with_is_left_out(document: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PublicKey.parse(document) is None


@pytest.mark.parametrize(("bits", "is_taken"), [(2047, False), (2048, True), (8192, True), (8193, False)])
def test_the_size_of_a_modulus_has_limits(bits: int, is_taken: bool) -> None:
    modulus = ((1 << bits) - 1).to_bytes((bits + 7) // 8)
    assert (PublicKey.parse({**RSA, "n": encode(modulus)}) is not None) == is_taken


@pytest.mark.parametrize("algorithm", SCHEMES)
def test_a_signature_is_of_one_key_one_text_and_one_algorithm(algorithm: str) -> None:
    private = make_key(*SCHEMES[algorithm])
    token = parse_token(sign(private, algorithm, {"alg": algorithm}, {"a": 1}), ALGORITHMS)
    key = PublicKey.parse(publish(private)["keys"][0])
    other = PublicKey.parse(publish(make_key(*SCHEMES[algorithm], kid="two"))["keys"][0])
    assert key is not None
    assert other is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert key.has_signed(algorithm, token.message, token.signature)
        assert not key.has_signed(algorithm, token.message + b"x", token.signature)
        assert not key.has_signed(algorithm, token.message, token.signature[:-1])
        assert not key.has_signed(algorithm, token.message, b"")
        assert not other.has_signed(algorithm, token.message, token.signature)
    assert "_engine_key" not in repr(key)


def test_a_set_has_the_keys_that_can_be_used() -> None:
    keys = KeySet.parse(json.dumps({"keys": [{"kty": "oct"}, RSA, None, {**EC, "kid": "two"}]}).encode())
    assert [key.kid for key in keys.keys] == ["one", "two"]
    assert keys.has("two")
    assert not keys.has("three")
    assert [key.kid for key in keys.find("one", "RS256")] == ["one"]
    assert [key.kid for key in keys.find(None, "ES256")] == ["two"]
    assert keys.find("one", "ES256") == []
    assert keys.find("three", "RS256") == []


def test_a_set_is_the_same_where_its_text_says_the_same() -> None:
    one = KeySet.parse(json.dumps({"keys": [RSA]}).encode())
    same = KeySet.parse(json.dumps({"x": 1, "keys": [dict(reversed(RSA.items()))]}, indent=1).encode())
    other = KeySet.parse(json.dumps({"keys": [RSA, EC]}).encode())
    assert one.digest == same.digest
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (b"<html>", "malformed|invalid"),
        (b"[]", "^not a JWK Set$"),
        (b"{}", "^not a JWK Set$"),
        (b'{"keys":{}}', "^not a JWK Set$"),
        (b'{"keys":[]}', "^no key that can be used to check tokens$"),
        (b'{"keys":[{"kty":"oct"}]}', "^no key that can be used to check tokens$"),
        (b'{"keys":[],"keys":[]}', "twice"),
    ],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KeySet.parse(data)


def test_only_so_many_keys_of_a_set_are_read() -> None:
    many = [{**EC, "kid": str(number)} for number in range(MAX_KEYS + 1)]
    assert len(KeySet(many).keys) == MAX_KEYS == 100

"""Invalid tokens, each wrong in one way, made by an issuer whose other tokens are valid."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.servers.token_issuer import Mint, encode, make_key, publish, sign

Make = Callable[[Mint], str]
YEAR_S = 365 * 86_400


def _header(**changes: Any) -> Make:
    return lambda mint: mint(changes)


def _claims(**changes: Any) -> Make:
    return lambda mint: mint(**changes)


def _at(name: str, offset_s: float) -> Make:
    """Return the time in `offset` seconds."""
    return lambda mint: mint(**{name: int(mint.wall()) + offset_s})


def _parts(change: Callable[[list[str]], list[str]]) -> Make:
    return lambda mint: ".".join(change(mint().split(".")))


def _raw(header: str | None = None, payload: str | None = None) -> Make:
    """Sign parts with these bytes. `KID` and `CLAIMS` are replaced by the valid values."""

    def make(mint: Mint) -> str:
        inner = json.dumps(mint.claims())[1:-1]
        head = json.dumps(mint.header()) if header is None else header.replace("KID", mint.key.kid)
        body = json.dumps(mint.claims()) if payload is None else payload.replace("CLAIMS", inner)
        return sign(mint.key, "RS256", head.encode("utf-8", "surrogatepass"), body.encode())

    return make


def _unsigned(algorithm: str, signature: str = "") -> Make:
    return lambda mint: f"{encode(mint.header(alg=algorithm))}.{encode(mint.claims())}.{signature}"


def _with_secret(algorithm: str, secret: Callable[[Mint], bytes]) -> Make:
    """Sign with a public value used as a secret."""

    def make(mint: Mint) -> str:
        message = f"{encode(mint.header(alg=algorithm))}.{encode(mint.claims())}"
        method = getattr(hashlib, f"sha{algorithm[2:]}")
        return f"{message}.{encode(hmac.new(secret(mint), message.encode(), method).digest())}"

    return make


def _by(kind: str, size: Any, algorithm: str, name: str = "one", **header: Any) -> Make:
    """Sign with a foreign key."""

    def make(mint: Mint) -> str:
        key = make_key(kind, size, name)
        return Mint(mint.issuer, key, algorithm, mint.wall, mint.resource)(header)

    return make


def _pointing(name: str, value: Callable[[Any], Any]) -> Make:
    """Sign with a foreign key, which a header points to."""

    def make(mint: Mint) -> str:
        key = make_key("RSA", 2048, "theirs")
        return Mint(mint.issuer, key, "RS256", mint.wall, mint.resource)({name: value(key)})

    return make


def _pem(mint: Mint) -> bytes:
    data: bytes = mint.key.as_pem(private=False)
    return data


def _flip(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


def _mixed(mint: Mint) -> str:
    """The claims of one token with the signature of another."""
    header, payload, _ = mint(sub="root").split(".")
    return f"{header}.{payload}.{mint().split('.')[2]}"


def _other_hash(mint: Mint) -> str:
    """Sign with one algorithm and name another."""
    return sign(mint.key, "RS512", mint.header(), mint.claims())


def _json_form(mint: Mint) -> str:
    header, payload, signature = mint().split(".")
    return encode(json.dumps({"protected": header, "payload": payload, "signature": signature}).encode())


def _public(key: Any) -> Mapping[str, Any]:
    return publish(key)["keys"][0]


def _prefixed_address(mint: Mint) -> str:
    return mint(aud=mint.resource + ".evil.example")


BAD_TOKENS: dict[str, Make] = {
    # not a token
    "a word": lambda mint: "token",
    "two dots": lambda mint: "..",
    "one part": lambda mint: mint().split(".")[0],
    "two parts": _parts(lambda parts: parts[:2]),
    "four parts": _parts(lambda parts: [*parts, "AA"]),
    "five parts, as if encrypted": _parts(lambda parts: [*parts, "AA", "AA"]),
    "a token and a token": lambda mint: f"{mint()}.{mint()}",
    "the JSON form": _json_form,
    "more than 16 KiB": _claims(filler="x" * 16_384),
    "a padded signature": lambda mint: mint() + "==",
    "a signature in plain base64": _parts(lambda parts: [*parts[:2], parts[2][:-1] + "+"]),
    "a signature with bits to spare": lambda mint: mint()[:-1] + "B",
    "an empty payload": _parts(lambda parts: [parts[0], "", parts[2]]),
    "an empty header": _parts(lambda parts: ["", *parts[1:]]),
    "a header that is no JSON": _raw(header="alg=RS256"),
    "a header that is a list": _raw(header='["alg", "RS256"]'),
    "a payload that is a list": _raw(payload="[]"),
    "a payload that is a text": _raw(payload='"sub"'),
    "a payload with NaN": _raw(payload='{CLAIMS, "x": NaN}'),
    "a payload after a byte order mark": _raw(payload="\ufeff{CLAIMS}"),
    "a payload nested too deep": _raw(payload='{CLAIMS, "x": ' + "[" * 900 + "]" * 900 + "}"),
    # members twice
    "alg twice": _raw(header='{"alg": "none", "kid": "KID", "alg": "RS256"}'),
    "alg twice, once escaped": _raw(header='{"\\u0061lg": "none", "kid": "KID", "alg": "RS256"}'),
    "kid twice": _raw(header='{"alg": "RS256", "kid": "other", "kid": "KID"}'),
    "sub twice": _raw(payload='{CLAIMS, "sub": "root"}'),
    "aud twice": _raw(payload='{"aud": "https://other.example", CLAIMS}'),
    # algorithms
    "alg none": _unsigned("none"),
    "alg None": _unsigned("None"),
    "alg NONE with a signature": _unsigned("NONE", "AAAA"),
    "alg none with a good signature": _header(alg="none"),
    "no alg": _header(alg=...),
    "alg as a list": _header(alg=["RS256"]),
    "alg as a number": _header(alg=256),
    "alg empty": _header(alg=""),
    "alg in small letters": _header(alg="rs256"),
    "unknown alg": _header(alg="RS1024"),
    "HS256 with the public key": _with_secret("HS256", _pem),
    "HS384 with the public key": _with_secret("HS384", _pem),
    "HS512 with the modulus": _with_secret("HS512", lambda mint: _public(mint.key)["n"].encode()),
    "HS256 with the name of the key": _with_secret("HS256", lambda mint: mint.key.kid.encode()),
    "HS256 with nothing": _with_secret("HS256", lambda mint: b""),
    "RS512 named as RS256": _other_hash,
    "RS256 named as PS256": _header(alg="PS256"),
    "RS256 named as ES256": _header(alg="ES256"),
    "RS256 named as EdDSA": _header(alg="EdDSA"),
    "an elliptic key of the same name": _by("EC", "P-256", "ES256"),
    "an Edwards key of the same name": _by("OKP", "Ed25519", "EdDSA"),
    # signatures
    "no signature": _parts(lambda parts: [*parts[:2], ""]),
    "a signature of zeros": _parts(lambda parts: [*parts[:2], "A" * len(parts[2])]),
    "a short signature": _parts(lambda parts: [*parts[:2], parts[2][:-4]]),
    "a changed signature": _parts(lambda parts: [*parts[:2], _flip(parts[2], 7)]),
    "a changed payload": _parts(lambda parts: [parts[0], encode({"sub": "root"}), parts[2]]),
    "the signature of another token": _mixed,
    "another key of the same name": _by("RSA", 2056, "RS256"),
    "a key that nobody publishes": _by("RSA", 2048, "RS256", "nobody"),
    "no kid, and another key": _by("RSA", 2048, "RS256", "nobody", kid=...),
    "kid as a number": _header(kid=1),
    "kid as a path": _by("RSA", 2048, "RS256", "nobody", kid="../../dev/null"),
    "kid as a query": _by("RSA", 2048, "RS256", "nobody", kid="x' UNION SELECT 'key"),
    # headers that would have us look elsewhere
    "a key in the header": _pointing("jwk", _public),
    "an address of keys in the header": _pointing("jku", lambda key: "http://127.0.0.1:9/keys"),
    "an address of certificates in the header": _pointing("x5u", lambda key: "http://127.0.0.1:9/cert"),
    "certificates in the header": _pointing("x5c", lambda key: ["AAAA"]),
    "crit that is unknown": _header(crit=["x-toolcrib"], **{"x-toolcrib": True}),
    "crit that is empty": _header(crit=[]),
    "crit that is no list": _header(crit="exp"),
    "crit of a known member": _header(crit=["kid"]),
    "a payload that is not encoded": _header(b64=False, crit=["b64"]),
    "b64 without crit": _header(b64=False),
    # types
    "the type of an ID token": _header(typ="id_token+jwt"),
    "the type of a proof": _header(typ="dpop+jwt"),
    "the type of a logout token": _header(typ="logout+jwt"),
    "a type that is no text": _header(typ=["JWT"]),
    "an empty type": _header(typ=""),
    "claims of an ID token": _claims(at_hash="x"),
    "the kind of an ID token": _claims(typ="ID"),
    "the kind of a refresh token": _claims(typ="Refresh"),
    "bound to a key of its holder": _claims(cnf={"jkt": "x"}),
    # issuer
    "no issuer": _claims(iss=...),
    "another issuer": _claims(iss="https://login.example.net"),
    "an issuer with a slash too many": lambda mint: mint(iss=mint.issuer + "/"),
    "an issuer in capitals": lambda mint: mint(iss=mint.issuer.upper()),
    "a list of issuers": lambda mint: mint(iss=[mint.issuer]),
    "an empty issuer": _claims(iss=""),
    # audience
    "no audience": _claims(aud=...),
    "another audience": _claims(aud="https://other.example/mcp"),
    "an audience that is a client": _claims(aud="desk"),
    "every audience": _claims(aud="*"),
    "an empty list of audiences": _claims(aud=[]),
    "audiences that are no texts": lambda mint: mint(aud=[mint.resource, 5]),
    "an audience with a slash too many": lambda mint: mint(aud=mint.resource + "/"),
    "an audience that begins alike": _prefixed_address,
    "only the origin as audience": lambda mint: mint(aud=mint.resource.removesuffix("/mcp")),
    "an audience with a query": lambda mint: mint(aud=mint.resource + "?x"),
    # times
    "no end": _claims(exp=...),
    "an end as a text": lambda mint: mint(exp=str(int(mint.wall()) + 300)),
    "an end that is true": _claims(exp=True),
    "an end that is null": _claims(exp=None),
    "an end below zero": _claims(exp=-1),
    "no end in sight": _claims(exp=10**30),
    "expired a minute ago": _at("exp", -60),
    "expired beyond the leeway": _at("exp", -31),
    "expired a year ago": _at("exp", -YEAR_S),
    "counts in a minute": _at("nbf", 60),
    "counts in a year": _at("nbf", YEAR_S),
    "a beginning that is no time": _claims(nbf="now"),
    "issued in an hour": _at("iat", 3600),
    "issued at no time": _claims(iat=[]),
    # who
    "no subject": _claims(sub=...),
    "an empty subject": _claims(sub=""),
    "a subject that is a number": _claims(sub=7),
    "a subject that is null": _claims(sub=None),
    "a subject of two lines": _claims(sub="ana\nroot"),
    "a subject that hides": _claims(sub="ana\u202e"),
    "a long subject": _claims(sub="a" * 600),
    "a client of two lines": _claims(client_id="desk\nother"),
    # scopes
    "scopes that are a number": _claims(scope=5),
    "scopes that are an object": _claims(scope={"read": True}),
    "a scope that is a number": _claims(scope=..., scp=["read", 5]),
}

"""Public keys of an issuer, and whether one of them signed; the only module that imports joserfc.

A key is for what its issuer says and for nothing else: its type, its curve and its size decide which
algorithms it fits, and what the sender of a token would like has no part in it. Symmetric keys, private keys,
weak keys and keys that cannot be read are left out one by one. Knows JWK and signatures; refuses to know what
was signed, and where keys come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolcrib import codec
from toolcrib.errors import ConfigurationError
from toolcrib.policies.identity.tokens import decode_base64url

MAX_KEYS = 100
_RSA_BITS = range(2048, 8192 + 1)
"""Below, a key proves little; above, it costs the one who checks more than it should."""
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ED25519 = frozenset({"EdDSA", "Ed25519"})
_FITTING: Mapping[tuple[Any, Any], frozenset[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): _ED25519,
}
"""Types and curves of keys, and what they sign with: between them, all of `policy.SIGNED_WITH`."""
_MATERIAL = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


def load_engine() -> Any:
    """The one place that loads the engine, which takes a tenth of a second: before the first request, and
    only where tokens are wanted. Raises ConfigurationError where it is not installed."""
    try:
        from joserfc import jwk, jws
    except ImportError:
        hint = "pip install 'toolcrib[auth]'"
        words = "tokens are to be checked, and joserfc is not installed"
        raise ConfigurationError(words, key="auth.oauth", hint=hint) from None
    return jwk, jws


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """One key. `algorithms` are those that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    _engine_key: Any = field(repr=False)

    @classmethod
    def read(cls, document: Any) -> PublicKey | None:
        """A JWK as it was published, or None where it is not one to check tokens with."""
        if not isinstance(document, dict) or not _SECRET.isdisjoint(document):
            return None
        kid = document.get("kid")
        algorithms = _algorithms_of(document)
        if not algorithms or not (kid is None or isinstance(kid, str)):
            return None
        kind = document["kty"]
        material = {name: document.get(name) for name in _MATERIAL[kind]}
        if kind == "RSA" and not _is_of_good_size(material["n"]):
            return None
        jwk, _ = load_engine()
        try:
            # Without the rest of the document: an odd certificate says nothing against a key.
            return cls(kid, algorithms, jwk.import_key({"kty": kind, **material}))
        except Exception:  # whatever a broken key makes of the engine, the other keys are fine
            return None

    def has_signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether `signature` over `message` is this key's. The algorithm must be one that it fits."""
        # One algorithm of two names, and the engine warns of the older with every use.
        name = "Ed25519" if algorithm in _ED25519 else algorithm
        _, jws = load_engine()
        engine = jws.JWSRegistry(algorithms=[name]).get_alg(name)
        engine.check_key(self._engine_key)
        return engine.verify(message, signature, self._engine_key) is True


class KeySet:
    """The keys of an issuer, as they were published at one time."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self.digest = codec.digest(documents)
        read = (PublicKey.read(document) for document in documents[:MAX_KEYS])
        self.keys = tuple(key for key in read if key is not None)

    @classmethod
    def read(cls, data: bytes) -> KeySet:
        """A JWK Set as it was sent. Raises ValueError, in words, where it has no key for us."""
        document = codec.parse(data)
        documents = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(documents, list):
            raise ValueError("it is not a set of keys")
        read = cls(documents)
        if not read.keys:
            raise ValueError("it has no key that tokens can be checked with")
        return read

    def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The keys that can have signed. Without `kid`, all that fit; none where it is not known."""
        named = self.keys if kid is None else [key for key in self.keys if key.kid == kid]
        return [key for key in named if algorithm in key.algorithms]

    def has(self, kid: str | None) -> bool:
        return any(key.kid == kid for key in self.keys)


def _algorithms_of(document: Mapping[str, Any]) -> frozenset[str]:
    """What a key may be used with: what fits its type, or the one thing that its issuer made it for."""
    try:
        fitting = _FITTING.get((document.get("kty"), document.get("crv")), frozenset())
        designed = document.get("alg")
        if designed is not None and designed not in fitting:
            return frozenset()
    except TypeError:  # a list or an object where a word belongs
        return frozenset()
    operations = document.get("key_ops", ["verify"])
    is_for_signatures = document.get("use", "sig") == "sig" and isinstance(operations, list)
    if not is_for_signatures or "verify" not in operations:
        return frozenset()
    return fitting if designed is None or fitting is _ED25519 else frozenset({designed})


def _is_of_good_size(modulus: Any) -> bool:
    try:
        number = int.from_bytes(decode_base64url(modulus))
    except ValueError:
        return False
    return number.bit_length() in _RSA_BITS

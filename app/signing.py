"""Keys that sign deliveries, as in Standard Webhooks 1.0.

The signature is over `{id}.{timestamp}.{body}`. There are two kinds. `v1` is HMAC-SHA256. Its
secret has 24 to 64 bytes, and is written as `whsec_` and base64. `v1a` is ed25519. Its secret key
is the seed (32 bytes), or the seed and then the public key (64 bytes), as in libsodium. The secret
key is written as `whsk_` and base64, and the public key as `whpk_` and base64.
"""

import base64
import binascii
import hmac
import secrets
from typing import Final, Protocol

from app.domain.catalogue.signing_secrets import SigningKind
from app.domain.errors import ValidationFailedError

HMAC_BYTES: Final = range(24, 65)

_NEW_HMAC_BYTES: Final = 32
_SEED_BYTES: Final = 32
_PREFIXES: Final = {SigningKind.V1: "whsec_", SigningKind.V1A: "whsk_"}
_PUBLIC: Final = "whpk_"
_WRONG: Final = {
    SigningKind.V1: "must be whsec_ and 24 to 64 bytes in base64",
    SigningKind.V1A: "must be whsk_ and an ed25519 key in base64: its seed, and perhaps its"
    " public key after it",
}


class SigningKey(Protocol):
    """A key that signs deliveries."""

    @property
    def text(self) -> str:
        """The secret key as text, `whsec_…` or `whsk_…`. It is stored in this form."""

    @property
    def public(self) -> str | None:
        """The public key that verifies signatures, as text, `whpk_…`; None if there is none."""

    def signature(self, start: bytes, body: bytes) -> bytes:
        """Return the signature over `start` followed by `body`, with the kind, such as `v1,…`."""


class HmacKey:
    """A key for HMAC-SHA256 (RFC 2104), prepared for fast signing."""

    __slots__ = ("_keyed", "text")

    public: Final = None

    def __init__(self, raw: bytes) -> None:
        if len(raw) not in HMAC_BYTES:
            raise ValueError("a secret must be 24 to 64 bytes")
        self.text = _PREFIXES[SigningKind.V1] + base64.b64encode(raw).decode("ascii")
        self._keyed = hmac.new(raw, digestmod="sha256")

    def signature(self, start: bytes, body: bytes) -> bytes:
        """Return the signature over `start` followed by `body`, as `v1,…`."""
        signing = self._keyed.copy()
        signing.update(start)
        signing.update(body)
        return b"v1," + binascii.b2a_base64(signing.digest(), newline=False)


class Ed25519Key:
    """A key for Ed25519 (RFC 8032)."""

    __slots__ = ("_key", "public", "text")

    def __init__(self, raw: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - needed only for Ed25519 keys

        seed, given = raw[:_SEED_BYTES], raw[_SEED_BYTES:]
        self._key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes_raw()
        if given not in {b"", public}:
            raise ValueError("what follows the seed is not its public key")
        self.text = _PREFIXES[SigningKind.V1A] + base64.b64encode(seed + public).decode("ascii")
        self.public = _PUBLIC + base64.b64encode(public).decode("ascii")

    def signature(self, start: bytes, body: bytes) -> bytes:
        """Return the signature over `start` followed by `body`, as `v1a,…`."""
        return b"v1a," + binascii.b2a_base64(self._key.sign(start + body), newline=False)


_KEYS: Final[dict[SigningKind, type[HmacKey] | type[Ed25519Key]]] = {
    SigningKind.V1: HmacKey,
    SigningKind.V1A: Ed25519Key,
}


def new_signing_key(kind: SigningKind) -> SigningKey:
    """Return a new random key of this kind."""
    size = _NEW_HMAC_BYTES if kind is SigningKind.V1 else _SEED_BYTES
    return _KEYS[kind](secrets.token_bytes(size))


def signing_key(kind: SigningKind, text: str) -> SigningKey:
    """Return the key whose text form is `text`.

    Raises:
        ValidationFailedError: The text is not a key of this kind. The error names `secret`.
    """
    prefix, problem = _PREFIXES[kind], ValidationFailedError.of("secret", _WRONG[kind])
    if not text.startswith(prefix):
        raise problem
    try:
        return _KEYS[kind](base64.b64decode(text.removeprefix(prefix), validate=True))
    except ValueError as exc:
        raise problem from exc

"""The keys that sign ledgers: Ed25519 (RFC 8032), derived from the secret keys of the service.

With a public key, everybody can verify a ledger, but nobody can sign it. Old entries have
signatures by HMAC-SHA256, which only the service can verify.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from app.domain.insight.ledger_signing import Signature, Verifiers

# The purposes for which keys are derived from the secret keys of the service
# (`app.vault.Vault.derived`): one for the seeds of Ed25519 keys, and one for the keys of HMAC.
SEEDS: Final = "ledger signature Ed25519"
SHARED: Final = "ledger signature"

_ID_LENGTH: Final = 16
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)


class LedgerKeys:
    """The ledger keys of a process: Ed25519 keys from `seeds`, and `shared` HMAC keys.

    The key from the first seed signs. All other keys only verify.
    """

    def __init__(
        self, seeds: Mapping[str, bytes] | None = None, shared: Mapping[str, bytes] | None = None
    ) -> None:
        signing = [Ed25519PrivateKey.from_private_bytes(seed) for seed in (seeds or {}).values()]
        public = [each.public_key() for each in signing]
        self._signing = dict(zip(map(_id_of, public), signing, strict=True))
        self.verifiers: Verifiers = {
            **{_id_of(key): partial(_is_signed_by, key) for key in public},
            **{id_: partial(_is_hmac_by, key) for id_, key in (shared or {}).items()},
        }

    def __bool__(self) -> bool:
        return bool(self._signing)

    def signature_of(self, hash_: str) -> Signature:
        """Sign the hash of an entry. Without a key, return an empty signature."""
        for key_id, key in self._signing.items():
            return Signature(key_id, key.sign(hash_.encode()).hex())
        return Signature()

    @property
    def public(self) -> Mapping[str, str]:
        """The public keys as PEM, by id."""
        form = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {
            key_id: key.public_key().public_bytes(*form).decode("ascii")
            for key_id, key in self._signing.items()
        }


def public_verifiers(pem: bytes) -> Verifiers:
    """Return a verifier for each Ed25519 public key in a PEM text.

    Raises:
        ValueError: The text has no public key, or a key that is not a valid Ed25519 key.
    """
    keys = [_public_key(each) for each in _PEM.findall(pem)]
    if not keys:
        raise ValueError("there is no public key in it (PEM)")
    return {_id_of(key): partial(_is_signed_by, key) for key in keys}


def _public_key(pem: bytes) -> Ed25519PublicKey:
    key = load_pem_public_key(pem)
    if not isinstance(key, Ed25519PublicKey):
        # Raise ValueError and not TypeError, because the text of the user has a key of the wrong
        # kind.
        raise ValueError("a public key in it is none of Ed25519")  # noqa: TRY004 - the content of the text is wrong
    return key


def _id_of(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:_ID_LENGTH]


def _is_signed_by(key: Ed25519PublicKey, hash_: str, signature: str) -> bool:
    try:
        key.verify(bytes.fromhex(signature), hash_.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _is_hmac_by(key: bytes, hash_: str, signature: str) -> bool:
    value = hmac.digest(key, hash_.encode(), "sha256").hex()
    return hmac.compare_digest(value.encode(), signature.encode())

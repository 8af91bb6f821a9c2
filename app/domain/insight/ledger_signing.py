"""Signatures of ledger entries: HMAC-SHA256 of their hashes, with keys outside of the database.

The hash of an entry includes all entries before, so the signature proves these too.
"""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

# Raw keys by id. The first key signs; all are used for checks.
Keys = Mapping[str, bytes]

NO_KEYS: Final[Keys] = {}
# The name of the purpose, from which these keys are derived together with the keys of the service.
USE: Final = "ledger signature"


class Signature(NamedTuple):
    """A signature in hex, and the id of the key that made it."""

    key_id: str | None = None
    value: str | None = None


def signature_of(keys: Keys, hash_: str) -> Signature:
    """Return the signature of an entry's hash; an empty signature if there is no key."""
    first = next(iter(keys.items()), None)
    return Signature() if first is None else Signature(first[0], _value(first[1], hash_))


def is_signed_by(key: bytes, hash_: str, signature: str) -> bool:
    """Whether the signature is valid for that hash and key."""
    return hmac.compare_digest(_value(key, hash_).encode(), signature.encode())


def _value(key: bytes, hash_: str) -> str:
    return hmac.digest(key, hash_.encode(), "sha256").hex()

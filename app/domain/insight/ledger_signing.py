"""Signatures of ledger entries: HMAC-SHA256 of their hashes, under keys that the database has not.

The hash of an entry is of all before it, so its signature speaks for these, too.
"""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

# Raw keys by their ids; the first signs.
Keys = Mapping[str, bytes]

NO_KEYS: Final[Keys] = {}
# What these are derived for, of the keys of the service.
USE: Final = "ledger signature"


class Signature(NamedTuple):
    """A signature in hex, and whose it is."""

    key_id: str | None = None
    value: str | None = None


def signature_of(keys: Keys, hash_: str) -> Signature:
    """The signature of an entry of that hash; an empty one without a key."""
    first = next(iter(keys.items()), None)
    return Signature() if first is None else Signature(first[0], _value(first[1], hash_))


def is_signed_by(key: bytes, hash_: str, signature: str) -> bool:
    """Whether it is the signature of that hash."""
    return hmac.compare_digest(_value(key, hash_).encode(), signature.encode())


def _value(key: bytes, hash_: str) -> str:
    return hmac.digest(key, hash_.encode(), "sha256").hex()

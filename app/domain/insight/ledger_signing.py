"""Signatures of ledger entries. The keys are not in the database: see `app.ledger_keys`.

The hash of an entry is signed. This hash covers all entries before, so the signature also proves
that they are unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

# A function of a hash and a signature (hex): whether the signature is valid for the hash.
Verify = Callable[[str, str], bool]
# The functions that verify signatures, by the id of the key.
Verifiers = Mapping[str, Verify]

NO_KEYS: Final[Verifiers] = {}


class Signature(NamedTuple):
    """A signature (hex), and the id of its key. Both are None if nothing was signed."""

    key_id: str | None = None
    value: str | None = None

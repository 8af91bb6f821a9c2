"""Signatures of ledger entries. The keys are not in the database: see `app.ledger_keys`.

The hash of an entry is signed. This hash covers all earlier entries, so the signature also proves
that the earlier entries are unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

# A function that gets a hash and a signature (hex), and returns whether the signature is valid.
Verify = Callable[[str, str], bool]
# Maps the id of each key to the function that verifies signatures by this key.
Verifiers = Mapping[str, Verify]

NO_KEYS: Final[Verifiers] = {}


class Signature(NamedTuple):
    """A signature (hex), and the id of its key. Both are None if nothing was signed."""

    key_id: str | None = None
    value: str | None = None

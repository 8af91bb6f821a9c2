"""Signatures of ledger entries: of their hashes, with keys outside of the database.

The hash of an entry includes all entries before, so the signature proves these too. The keys
themselves are in `app.ledger_keys`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

# Whether a signature (in hex) is valid for a hash.
Verify = Callable[[str, str], bool]
# The checks of signatures by the id of their key.
Verifiers = Mapping[str, Verify]

NO_KEYS: Final[Verifiers] = {}


class Signature(NamedTuple):
    """A signature in hex, and the id of the key that made it; without a key, neither."""

    key_id: str | None = None
    value: str | None = None

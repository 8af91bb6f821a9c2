"""Weighted rendezvous hashing: all processes with the same members find the same owner of a key.

A new member takes only the keys that it wins. A member that leaves gives up only its own keys. No
key moves between the others.
"""

from collections.abc import Mapping
from hashlib import blake2b
from math import log
from typing import Final

_DIGEST_BYTES: Final = 8
_HASHES: Final = 1 << 8 * _DIGEST_BYTES


def rendezvous(members: Mapping[str, float], key: str) -> str:
    """Return the member that owns `key`; a member wins in proportion to its weight (≥ 0).

    Members without weight win only if no other member has any.

    Raises:
        ValueError: There are no members.
    """
    return max(members, key=lambda member: (_score(member, members[member], key), member))


def _score(member: str, weight: float, key: str) -> float:
    """Weight ÷ exponential variable (Schindelhauer and Schomaker's logarithmic method)."""
    digest = blake2b(f"{member}\0{key}".encode(), digest_size=_DIGEST_BYTES).digest()
    # Scale the hash into (0, 1): its logarithm is then finite and below zero.
    uniform = (int.from_bytes(digest, "big") + 0.5) / (_HASHES + 1)
    return -weight / log(uniform)

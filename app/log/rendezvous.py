"""Weighted rendezvous hashing: finds the owner of a key, the same one in all processes.

The processes must know the same members. If a member joins, only the keys that it owns from then on
move. If a member leaves, only its own keys move. No key moves between the other members.

It asks each member about each key. `app.log.hash_ring` is faster for many members.
"""

from collections.abc import Mapping
from hashlib import blake2b
from math import log
from typing import Final

_DIGEST_BYTES: Final = 8
_HASHES: Final = 1 << 8 * _DIGEST_BYTES


def rendezvous(members: Mapping[str, float], key: str) -> str:
    """Return the member that owns `key`.

    A member owns keys in proportion to its weight (0 or more). Members with the weight 0 own keys
    only if all members have the weight 0.

    Raises:
        ValueError: There are no members.
    """
    return max(members, key=lambda member: (_score(member, members[member], key), member))


def _score(member: str, weight: float, key: str) -> float:
    """Return the score of a member for a key. The member with the highest score owns the key.

    The score is the weight, divided by an exponentially distributed number that is made from member
    and key (Schindelhauer and Schomaker's logarithmic method).
    """
    digest = blake2b(f"{member}\0{key}".encode(), digest_size=_DIGEST_BYTES).digest()
    # Scale the hash to a number between 0 and 1. Then its logarithm is finite and below zero.
    uniform = (int.from_bytes(digest, "big") + 0.5) / (_HASHES + 1)
    return -weight / log(uniform)

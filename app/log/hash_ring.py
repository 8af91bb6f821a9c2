"""Consistent hashing: finds the owner of a key, the same one in all processes.

The processes must know the same members. If a member joins, only the keys that it owns from then on
move. If a member leaves, only its own keys move. No key moves between the other members.
"""

from bisect import bisect
from collections.abc import Mapping
from hashlib import blake2b, shake_128
from math import ceil
from struct import Struct
from typing import Final

# The number of points of a member with the weight 1. With more points, the members own more equal
# shares. With 2,000 points, shares differ by about 2 % (the standard deviation).
POINTS: Final = 2_000
# A member has no more points, whatever weight it names: another program may have joined.
_POINTS_MAX: Final = 100 * POINTS
_POINT_BYTES: Final = 8
_POINT: Final = Struct(">Q")


class HashRing:
    """A circle of points. Each point belongs to a member, and owns the keys before it.

    The points of a member follow from its name. A member owns keys in proportion to its weight (0
    or more). Members with the weight 0 own keys only if all members have the weight 0.
    """

    def __init__(self, members: Mapping[str, float]) -> None:
        """Create the ring of these members, each with its weight.

        Raises:
            ValueError: There are no members.
        """
        if not members:
            raise ValueError("a ring needs members")
        none_has_weight = not any(members.values())
        self._members: dict[int, str] = {}
        # If two members have the same point, it belongs to the last one by name.
        for name in sorted(members):
            weight = 1.0 if none_has_weight else members[name]
            self._members |= dict.fromkeys(_points(name, weight), name)
        self._points = sorted(self._members)

    def owner(self, key: str) -> str:
        """Return the member that owns `key`."""
        digest = blake2b(key.encode(), digest_size=_POINT_BYTES).digest()
        following = bisect(self._points, _POINT.unpack(digest)[0])
        return self._members[self._points[following % len(self._points)]]


def _points(name: str, weight: float) -> tuple[int, ...]:
    count = min(_POINTS_MAX, ceil(POINTS * weight))
    stream = shake_128(name.encode()).digest(_POINT_BYTES * count)
    return Struct(f">{count}Q").unpack(stream)

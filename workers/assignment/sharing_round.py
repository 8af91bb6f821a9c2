"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """The number and time of a round, and when the notes before it were written, by number.

    `now` (monotonic seconds) is after reading the notes of others, and before writing own ones.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

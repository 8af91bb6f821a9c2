"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """A round: its number, its time, and when the notes of those before it were written, by number.

    `now` (monotonic seconds) is after the notes of others were read, and before ours are written.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """The number and time of a round, and when earlier notes were written, by number.

    `now` (monotonic seconds) is a time after reading the notes of others, and before writing own
    notes.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """One round in which workers share rates. Times are seconds on this worker's monotonic clock.

    Attributes:
        number: The number of the round. This worker's notes of the round have the same number.
        now: A time after this worker read the notes of others, and before it writes its own notes.
        written_at: When this worker wrote its notes of earlier rounds, by the round's number.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

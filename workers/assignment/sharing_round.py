"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """One round. Times are seconds on this worker's monotonic clock.

    Attributes:
        number: The number of the round. This worker's notes of the round have the same number.
        now: A time after the notes of others were read, and before this worker's are written.
        written_at: When this worker wrote its notes of earlier rounds, by the round's number.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

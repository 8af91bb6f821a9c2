"""A round in which workers share their rates."""

from collections.abc import Mapping
from typing import NamedTuple


class SharingRound(NamedTuple):
    """A round: its number, its time, and the times of earlier notes by number.

    `now` (monotonic seconds) is after reading the notes of others, and before writing own notes.
    """

    number: int
    now: float
    written_at: Mapping[int, float]

"""When workers talk of their shares."""

from collections.abc import Mapping
from typing import NamedTuple


class Moment(NamedTuple):
    """A round of talks: its number, its time, and when those before it were said, by number.

    `now` (monotonic seconds) is after the notes of others were read, and before ours are written.
    """

    number: int
    now: float
    said_at: Mapping[int, float]

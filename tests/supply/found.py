"""What a check of the audit comes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# How a check can end.
GOOD: Final = "good"
BAD: Final = "BAD"
UNCHECKED: Final = "NOT CHECKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The end of one check: what is said in any case, and what is wrong.

    `unchecked` is why the check could not be made; then nothing is known to be good.
    """

    lines: Sequence[str] = ()
    problems: Sequence[str] = ()
    unchecked: str = ""

    @property
    def verdict(self) -> str:
        """One word for it."""
        if self.unchecked:
            return UNCHECKED
        return BAD if self.problems else GOOD

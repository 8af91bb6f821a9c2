"""What the checker finds wrong."""

from typing import NamedTuple


class Violation(NamedTuple):
    """A promise that a history breaks, and when."""

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.4f}: {self.text}"

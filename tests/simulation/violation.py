"""Violations of rules that the checker finds."""

from typing import NamedTuple


class Violation(NamedTuple):
    """A rule that a history violates, the time of the violation, and a description."""

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.4f}: {self.text}"

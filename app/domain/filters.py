"""Filters of a subscription: which messages it wants. How one is matched is app.filtering's."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FILTERS_MAX: Final = 50
EXPRESSION_LENGTH_MAX: Final = 1_000


class FilterType(StrEnum):
    """What a filter looks at: values of a JSON body, or a propagated header."""

    JSONPATH = "jsonpath"
    HEADER = "header"


class MatchingStrategy(StrEnum):
    """Of several values found by a path, which must match."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One condition (Hermes section "Filters"): `matcher` is a regex that matches whole values.

    `path` belongs to JSONPATH filters, `header` (a name) to HEADER filters.
    """

    type: FilterType
    matcher: str
    path: str = ""
    header: str = ""
    matching_strategy: MatchingStrategy = MatchingStrategy.ALL

    def __post_init__(self) -> None:
        subject, other = ("path", "header") if self.type is FilterType.JSONPATH else _HEADER_FIELDS
        _require_text(subject, getattr(self, subject))
        _require_text("matcher", self.matcher)
        if getattr(self, other):
            raise ValidationFailedError.of(other, f"does not belong to a {self.type} filter")


_HEADER_FIELDS: Final = ("header", "path")


def _require_text(name: str, value: str) -> None:
    if not 1 <= len(value) <= EXPRESSION_LENGTH_MAX:
        raise ValidationFailedError.of(name, f"must have 1 to {EXPRESSION_LENGTH_MAX} characters")
    if "\0" in value:
        raise ValidationFailedError.of(name, "must be without zero characters")

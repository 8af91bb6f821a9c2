"""The filters of a subscription: which messages it gets. `app.filtering` applies them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError

FILTERS_MAX: Final = 50
EXPRESSION_LENGTH_MAX: Final = 1_000


class FilterType(StrEnum):
    """What a filter checks: values in a JSON body, a propagated header, or the whole message."""

    JSONPATH = "jsonpath"
    HEADER = "header"
    CEL = "cel"


class MatchingStrategy(StrEnum):
    """How a filter judges several values. ALL: every value must match. ANY: one must match."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One filter: a condition for messages (see "Filters" in Hermes' documents).

    Attributes:
        type: What the filter checks.
        matcher: A regular expression that must match the whole value; empty for a CEL filter.
        path: The JSONPath of the values, for a JSONPATH filter.
        avropath: Hermes' path as it was given, if `path` was made from such a path. Then a null
            counts as the text `null`. It is a field, and not a type, because earlier releases
            ignore unknown fields, and refuse unknown types.
        header: The name of the header, for a HEADER filter.
        expression: The expression, for a CEL filter.
        matching_strategy: For a JSONPATH or HEADER filter: whether all of several values must
            match, or only one.
    """

    type: FilterType
    matcher: str = ""
    path: str = ""
    avropath: str = ""
    header: str = ""
    expression: str = ""
    matching_strategy: MatchingStrategy = MatchingStrategy.ALL

    def __post_init__(self) -> None:
        own = _FIELDS[self.type]
        for name in own:
            _require_text(name, getattr(self, name))
        if self.avropath and self.type is not FilterType.JSONPATH:
            raise ValidationFailedError.of("path", f"does not belong to a {self.type} filter")
        for name in _TEXTS:
            if name not in own and getattr(self, name):
                raise ValidationFailedError.of(name, f"does not belong to a {self.type} filter")
        if self.type is FilterType.CEL and self.matching_strategy is not MatchingStrategy.ALL:
            raise ValidationFailedError.of("matchingStrategy", "does not belong to a cel filter")


_FIELDS: Final = {
    FilterType.JSONPATH: ("path", "matcher"),
    FilterType.HEADER: ("header", "matcher"),
    FilterType.CEL: ("expression",),
}
_TEXTS: Final = ("path", "header", "matcher", "expression")


def _require_text(name: str, value: str) -> None:
    if not 1 <= len(value) <= EXPRESSION_LENGTH_MAX:
        raise ValidationFailedError.of(name, f"must have 1 to {EXPRESSION_LENGTH_MAX} characters")
    if "\0" in value:
        raise ValidationFailedError.of(name, "must be without zero characters")

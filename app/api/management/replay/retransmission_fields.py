"""The fields that belong to each way of sending messages again.

Fields of another way are refused, and not ignored. If a field that selects messages were ignored,
too many messages would be sent.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from app.api.bodies.base import OwnT, parse_own
from app.domain.errors import FieldProblem, ValidationFailedError


class RetransmissionWay(StrEnum):
    """A way of sending messages again, with its name in requests."""

    ALL = "only: all"
    UNDELIVERED = "only: undelivered"
    MISSING = "only: missing"
    DISCARDED = "only: discarded"
    SEEK = "mode: seek"
    DATE = "retransmissionDate"


_SENT: Final = frozenset({"only", "mode", "from", "to", "messageIds", "dryRun"})
_PACED: Final = _SENT | {"filter", "keys", "share", "rate"}
TAKEN: Final[Mapping[RetransmissionWay, frozenset[str]]] = {
    RetransmissionWay.ALL: _PACED | {"offsets"},
    RetransmissionWay.UNDELIVERED: _PACED | {"statusCodes", "reason"},
    RetransmissionWay.MISSING: _PACED | {"offsets"},
    RetransmissionWay.DISCARDED: _SENT | {"statusCodes", "reason", "again"},
    RetransmissionWay.SEEK: frozenset({"mode", "only", "from", "offsets", "dryRun"}),
    RetransmissionWay.DATE: frozenset({"retransmissionDate", "dryRun"}),
}


def way_of(body: Mapping[str, Any]) -> RetransmissionWay | None:
    """Return the requested way; None if the body names none."""
    if "retransmissionDate" in body:
        return RetransmissionWay.DATE
    if body.get("mode") == "seek":
        return RetransmissionWay.SEEK
    only = body.get("only")
    return next((way for way in RetransmissionWay if f"only: {only}" == way), None)


def parsed(model: type[OwnT], body: Mapping[str, Any], way: RetransmissionWay | None) -> OwnT:
    """Return `body` as `model`. Fields that do not belong to `way` are refused.

    Raises:
        ValidationFailedError: The body is invalid; the error lists all problems of the body.
    """
    misplaced = list(_misplaced(body, way))
    elsewhere = _elsewhere(body, way)
    fitting = {name: value for name, value in body.items() if name not in elsewhere}
    try:
        requested = parse_own(model, fitting)
    except ValidationFailedError as exc:
        raise ValidationFailedError([*misplaced, *exc.details]) from exc
    if misplaced:
        raise ValidationFailedError(misplaced)
    return requested


def require_fitting(body: Mapping[str, Any], way: RetransmissionWay) -> None:
    """Refuse fields that belong only to other ways.

    Raises:
        ValidationFailedError: The body has fields that belong only to other ways.
    """
    if misplaced := list(_misplaced(body, way)):
        raise ValidationFailedError(misplaced)


def _misplaced(body: Mapping[str, Any], way: RetransmissionWay | None) -> Iterator[FieldProblem]:
    for name, ways in _elsewhere(body, way).items():
        if body[name] is not None:
            yield FieldProblem(path=name, message=f"belongs to {_listed(ways)}, not to {way}")


def _elsewhere(
    body: Mapping[str, Any], way: RetransmissionWay | None
) -> Mapping[str, list[RetransmissionWay]]:
    """Return the fields of the body that belong only to other ways, each with these ways."""
    if way is None:
        return {}
    others = {
        name: [each for each, taken in TAKEN.items() if name in taken]
        for name in sorted(body.keys() - TAKEN[way])
    }
    return {name: ways for name, ways in others.items() if ways}


def _listed(ways: list[RetransmissionWay]) -> str:
    """Return the ways as a text such as `only: all and missing, or mode: seek`."""
    kinds = [each.removeprefix("only: ") for each in ways if each.startswith("only: ")]
    others = [each.value for each in ways if not each.startswith("only: ")]
    if kinds:
        *most, last = kinds
        others.insert(0, "only: " + (f"{', '.join(most)} and {last}" if most else last))
    return ", or ".join(others)

"""The start position of a new subscription in bodies."""

from datetime import UTC, datetime
from typing import Final

from app.api.bodies.base import JsonObject
from app.api.bodies.moments import moment_of
from app.domain.catalogue.start_position import FIELD, Beginning, Edge, require_reached
from app.domain.errors import ValidationFailedError

_RULE: Final = (
    "must be earliest, latest, a time like 2026-01-31T12:00:00Z, milliseconds since the epoch,"
    " or how long ago: -30m, -6h, -2d"
)


def position_text(text: str) -> str:
    """Return `text`, if it names a start position: `earliest`, `latest` or a time.

    Raises:
        ValidationFailedError: The text names no start position.
    """
    beginning_of(text, now=datetime.now(UTC))
    return text


def beginning_in(body: JsonObject) -> Beginning:
    """Return the start position in the valid body of a new subscription; the latest by default."""
    given = body.get(FIELD)
    return Edge.LATEST if given is None else beginning_of(str(given), now=datetime.now(UTC))


def beginning_of(text: str, *, now: datetime) -> Beginning:
    """Return the start position that a text names; times such as `-6h` are relative to `now`.

    Raises:
        ValidationFailedError: The text names no start position.
    """
    if text in set(Edge):
        return Edge(text)
    try:
        moment = moment_of(text, now=now, path=FIELD)
    except ValidationFailedError as exc:
        raise ValidationFailedError.of(FIELD, _RULE) from exc
    return require_reached(moment, now=now)

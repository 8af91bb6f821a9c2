"""Where a new subscription is to begin, as a body says it."""

from datetime import UTC, datetime

from app.api.schemas.base import JsonObject
from app.api.schemas.moments import moment_of
from app.domain.beginning import FIELD, Beginning, Edge, require_reached


def place_text(text: str) -> str:
    """`text`, if it names a place; ValidationFailedError."""
    beginning_of(text, now=datetime.now(UTC))
    return text


def beginning_in(body: JsonObject) -> Beginning:
    """Where the body of a new subscription, which is valid otherwise, has that begin."""
    text = body.get(FIELD)
    return Edge.LATEST if text is None else beginning_of(text, now=datetime.now(UTC))


def beginning_of(text: str, *, now: datetime) -> Beginning:
    """The place that a text names at `now`; ValidationFailedError."""
    if text in set(Edge):
        return Edge(text)
    return require_reached(moment_of(text, now=now, path=FIELD), now=now)

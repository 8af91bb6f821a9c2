"""The response to the creation of a subscription that starts before the start of the log."""

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.management.catalogue.subscription_read import SubscriptionRead, subscription_read
from app.api.management.insight.job_bodies import NO_RUNNER
from app.api.management.replay.retransmissions_bodies import SpanRead, spans_of
from app.domain.replay.retransmission import Retransmission
from app.services.catalogue.history import History
from app.services.catalogue.subscriptions import Acknowledged


class HistoryRead(Schema):
    """The requested messages from before the start of the log (`startFrom`)."""

    retransmission: str | None = Field(
        default=None,
        description="id of the retransmission that sends the archived messages",
    )
    waiting_for: str | None = Field(default=None, description="why nothing happens, if it waits")
    offsets: list[SpanRead] | None = Field(
        default=None,
        description="ranges of the archive; from toOffset on, the log is read",
    )
    gone: int = Field(description="requested offsets that are in neither log nor archive: not sent")


class CreatedSubscriptionRead(SubscriptionRead):
    """A new subscription."""

    history: HistoryRead | None = Field(
        default=None, description="with startFrom, where the log does not reach back so far"
    )


def created_subscription_read(made: Acknowledged) -> CreatedSubscriptionRead:
    """Return the response to the creation."""
    shown = subscription_read(made.subscription, made.state)
    history = None if made.history is None else _history_read(made.history)
    return CreatedSubscriptionRead(**dict(shown), history=history)


def _history_read(history: History) -> HistoryRead:
    requested = history.retransmission
    if requested is None:
        return HistoryRead(gone=history.gone)
    return HistoryRead(
        retransmission=requested.id,
        waiting_for=None if history.runner_live else NO_RUNNER,
        offsets=_looked_at(requested),
        gone=history.gone,
    )


def _looked_at(retransmission: Retransmission) -> list[SpanRead]:
    """Return the requested ranges of offsets that are not empty."""
    return [each for each in spans_of(retransmission) if each.offset < each.to_offset]

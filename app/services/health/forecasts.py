"""The backlog forecast of a subscription: the oldest message, the backlog's end, and losses."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.commit import parse_progress
from app.domain.errors import UnavailableError
from app.domain.health.forecast import LossCause
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.services.rates import BacklogForecast

_EXPIRE: Final = frozenset({LossCause.PUBLISH_TTL, LossCause.MESSAGE_TTL, LossCause.RETRY_BUFFER})
# How long a forecast waits for the log, which knows when retried messages were first read. If the
# log takes longer, the forecast is made without this time.
_TRIED_WITHIN: Final = timedelta(milliseconds=500)


async def backlog_forecast(
    log: MessageLog,
    subscription: Subscription,
    subscription_health: SubscriptionHealth,
    *,
    unfinished: Collection[Partition],
) -> BacklogForecast:
    """Return the backlog forecast of a subscription, from the last evaluation of its health.

    `unfinished` has the partitions in which the subscription may have unfinished messages.
    """
    taken = await _oldest_taken(log, subscription, unfinished) if unfinished else None
    tried = timedelta() if taken is None else datetime.now(UTC) - taken
    return BacklogForecast(
        oldest_age=max(subscription_health.lag_time, tried),
        drain=subscription_health.drain,
        expiring=sum(loss.messages for loss in subscription_health.losses if loss.cause in _EXPIRE),
    )


async def _oldest_taken(
    log: MessageLog, subscription: Subscription, partitions: Collection[Partition]
) -> datetime | None:
    """Return when the oldest retried message of the subscription was first read from the log.

    The result is None if the subscription retries no message, or if the time is unknown.
    """
    try:
        async with asyncio.timeout(_TRIED_WITHIN / timedelta(seconds=1)):
            committed = await log.committed({subscription.group: partitions})
    except (TimeoutError, UnavailableError):
        return None
    found = (
        parse_progress(subscription.id, each.offset, each.metadata)
        for each in committed.get(subscription.group, {}).values()
    )
    opened = [each.oldest_opened_ms for each in found if each and each.oldest_opened_ms is not None]
    return datetime.fromtimestamp(min(opened) / 1000, UTC) if opened else None

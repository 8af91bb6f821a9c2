"""Mandatory messages, which are refused if no subscription would get them.

Workers filter out a message that a filter cannot judge. So a subscription whose filter cannot judge
the message would not get it.
"""

import asyncio
from contextlib import suppress
from functools import lru_cache
from typing import Final

import structlog

from app.domain.catalogue.filters import Filter
from app.domain.catalogue.topic import Topic
from app.domain.message import Message, NewRecord, Partition, Record
from app.filtering.bodies import ParsedBodies, parsed
from app.filtering.budget import WORK_MAX, BodyError, Budget
from app.filtering.matching import FilterChain
from app.schemas.messages import reading
from app.services.directory.topics import TopicDirectory

# The maximum number of compiled filter chains that are kept in memory. Each subscription with
# filters has one chain.
_COMPILED_MAX: Final = 1_000
# The number of message bytes that filters check without a pause. This takes at most about 10 ms. In
# the pause, other requests are handled.
_BYTES_PER_TURN: Final = 32 * 1024
# The number of bytes that is added for each subscription whose filters check the message, because
# small messages take time too.
_BYTES_PER_LOOK: Final = 1024

_log = structlog.get_logger(__name__)


async def is_wanted(topic: Topic, record: NewRecord, directory: TopicDirectory) -> bool:
    """Whether an active subscription would get the record if the topic stores the record.

    Other requests are handled between the checks of subscriptions.
    """
    if directory.takes_all(topic.name):
        return True
    # Use the topic in the directory, which has the schema versions that were looked up for this
    # message.
    message = _message(directory.known(topic.name) or topic, record)
    looked_at = 0
    # Copy the subscriptions, because they may change while other requests are handled.
    for each in list(directory.subscribers(topic.name).values()):
        if each.active and _wants(each.filters, message):
            return True
        looked_at += len(record.value) + _BYTES_PER_LOOK
        if looked_at > _BYTES_PER_TURN:
            looked_at = 0
            await asyncio.sleep(0)
    return False


def _message(topic: Topic, record: NewRecord) -> Message:
    """Return the record as a worker reads it, with its body parsed once for all subscriptions."""
    stored = Record(0, record.timestamp_ms or 0, record.key, record.value, list(record.headers))
    message = reading(topic)(stored, Partition(topic.name, 0))
    budget = Budget()
    # Ignore the error if the body cannot be parsed or takes too much work. The filters then parse
    # the body again, and report the error.
    with suppress(BodyError):
        message.parsed = parsed(message.body, budget)
        message.parsed_work = WORK_MAX - budget.left
    return message


def _wants(filters: tuple[Filter, ...], message: Message) -> bool:
    try:
        return _chain(filters).wants(message)
    except Exception:  # noqa: BLE001 - a bug affects only one subscription's filters
        _log.exception("internal_error", step="filters")
        return False


@lru_cache(maxsize=_COMPILED_MAX)
def _chain(filters: tuple[Filter, ...]) -> FilterChain:
    # Keep no parsed bodies in a cache, because the body of a message is parsed before its filters
    # run.
    return FilterChain(filters, ParsedBodies(bytes_max=0))

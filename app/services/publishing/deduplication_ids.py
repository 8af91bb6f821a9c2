"""The deduplication id of a message: the publisher's id, or the value of an expression."""

import asyncio
import json
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final

from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.domain.message import Message, NewRecord, Partition, Record
from app.expressions import EvaluationError
from app.filtering.bodies import ParsedBodies
from app.filtering.budget import Budget
from app.filtering.expressions import MessageExpression
from app.schemas.messages import reading

_PATH: Final = "deduplication.expression"
_COMPILED_MAX: Final = 1_000
# The number of bytes of a request's messages whose ids are found without a pause. This takes at
# most about 10 ms. In the pause, other requests are handled.
_BYTES_PER_TURN: Final = 32 * 1024


def published_id(topic: Topic, record: NewRecord, own_id: bytes | None) -> str | None:
    """Return the id by which the topic recognises duplicates of the message.

    If the topic has no expression, this is the id that the publisher sent. The result is None if
    the message has no id.

    Raises:
        ValidationFailedError: The expression has no value for the message. Without this error, the
            message could be stored twice, and nobody would notice.
    """
    rule = topic.deduplication
    if rule is None:
        return None
    if rule.expression is None:
        return None if own_id is None else own_id.decode()
    return _evaluated(rule.expression, topic, record)


async def published_ids(
    topic: Topic, records: Sequence[NewRecord], own_ids: Sequence[bytes | None]
) -> list[str | ValidationFailedError | None]:
    """Return, for each record, the result of `published_id` or its error.

    Other requests are handled between the records.
    """
    ids: list[str | ValidationFailedError | None] = []
    size = 0
    for record, own_id in zip(records, own_ids, strict=True):
        try:
            ids.append(published_id(topic, record, own_id))
        except ValidationFailedError as error:
            ids.append(error)
        size += len(record.value)
        if size > _BYTES_PER_TURN:
            size = 0
            await asyncio.sleep(0)
    return ids


def _evaluated(expression: str, topic: Topic, record: NewRecord) -> str | None:
    try:
        value = _compiled(expression).value(_message(topic, record), Budget())
        if value is None:
            return None
        written = json.dumps(value, sort_keys=True, allow_nan=False)
    except EvaluationError as exc:
        raise ValidationFailedError.of(_PATH, f"has no value for this message: {exc}") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValidationFailedError.of(_PATH, f"has no value that is JSON: {exc}") from exc
    # Include the expression in the id. So an id from an old expression is never equal to an id from
    # a new expression.
    return sha256(f"{expression}\0{written}".encode()).hexdigest()


@lru_cache(maxsize=_COMPILED_MAX)
def _compiled(expression: str) -> MessageExpression:
    # Keep no parsed bodies in a cache, because no body is used twice.
    return MessageExpression(expression, path=_PATH, bodies=ParsedBodies(bytes_max=0))


def _message(topic: Topic, record: NewRecord) -> Message:
    stored = Record(0, record.timestamp_ms or 0, record.key, record.value, list(record.headers))
    return reading(topic)(stored, Partition(topic.name, 0))

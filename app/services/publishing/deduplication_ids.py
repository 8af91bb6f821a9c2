"""The id that identifies duplicates: the publisher's, or the value of an expression."""

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
# How many bytes of a batch are checked before other requests are handled. This takes at most about
# 10 ms.
_BYTES_PER_TURN: Final = 32 * 1024


def published_id(topic: Topic, record: NewRecord, own_id: bytes | None) -> str | None:
    """Return the id by which the topic recognises duplicates of the message.

    None if the message has no id. Without an expression, the id is the publisher's, if any.

    Raises:
        ValidationFailedError: The expression has no value for the message, which could then be
            stored twice unnoticed.
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
    """Return the result of `published_id` for each record.

    Other requests are handled in between.
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
    # Include the expression. Ids that an old expression made must not match ids of a new one.
    return sha256(f"{expression}\0{written}".encode()).hexdigest()


@lru_cache(maxsize=_COMPILED_MAX)
def _compiled(expression: str) -> MessageExpression:
    # Keep no parsed bodies, because no body is read twice.
    return MessageExpression(expression, path=_PATH, bodies=ParsedBodies(bytes_max=0))


def _message(topic: Topic, record: NewRecord) -> Message:
    stored = Record(0, record.timestamp_ms or 0, record.key, record.value, list(record.headers))
    return reading(topic)(stored, Partition(topic.name, 0))

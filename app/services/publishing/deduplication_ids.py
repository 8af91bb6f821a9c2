"""By which id a message is known again: its publisher's, or what an expression makes of it."""

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
# Between other requests, so many bytes of a batch are looked at: about 10 ms at worst.
_BYTES_PER_TURN: Final = 32 * 1024


def published_id(topic: Topic, record: NewRecord, own_id: bytes | None) -> str | None:
    """The id by which the topic's rule knows a message again; None: by none.

    Without an expression that is the id that its publisher gave it, if any. ValidationFailedError
    when the rule's expression has no value for it: it could be stored twice without being noticed.
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
    """`published_id` of each; other requests are served in between."""
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
    # With the expression: the ids of a rule that is changed are not taken for those of the new one.
    return sha256(f"{expression}\0{written}".encode()).hexdigest()


@lru_cache(maxsize=_COMPILED_MAX)
def _compiled(expression: str) -> MessageExpression:
    # Nothing is looked at twice: no body is kept.
    return MessageExpression(expression, path=_PATH, bodies=ParsedBodies(bytes_max=0))


def _message(topic: Topic, record: NewRecord) -> Message:
    stored = Record(0, record.timestamp_ms or 0, record.key, record.value, list(record.headers))
    return reading(topic)(stored, Partition(topic.name, 0))

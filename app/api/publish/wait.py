"""Handles `?wait=5s` of a publish request: the response says what happened to the message.

With `ackExpression` the response is sent when that condition is true. Its status shows whether the
condition became true in time.
"""

import asyncio
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope

from app.api.body import ClientGoneError
from app.api.publish.headers import query_value
from app.domain.errors import ValidationFailedError
from app.services.directory.topics import TopicDirectory
from app.services.publishing.acknowledgement import PATH, ack_condition
from app.services.publishing.waiters import WAIT_MAX, SubscriberOutcome, Waiters, Waiting

_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s)?")
_RULE: Final = f"must be 0 to {WAIT_MAX.seconds} seconds, as 5s or 500ms"


def wait_of(scope: Scope) -> timedelta | None:
    """Return how long the publisher waits, if requested.

    Raises:
        ValidationFailedError: The duration is not valid.
    """
    given = query_value(scope, "wait")
    if given is None:
        if scope["query_string"] and query_value(scope, PATH) is not None:
            raise ValidationFailedError.of(PATH, "must come with wait")
        return None
    found = _DURATION.fullmatch(given)
    if found is None:
        raise ValidationFailedError.of("wait", _RULE)
    number, unit = int(found[1]), found[2]
    wait = timedelta(milliseconds=number) if unit == "ms" else timedelta(seconds=number)
    if wait > WAIT_MAX:
        raise ValidationFailedError.of("wait", _RULE)
    return wait


def waiting_for(
    scope: Scope,
    wait: timedelta | None,
    topic: str,
    *,
    directory: TopicDirectory,
    waiters: Waiters,
) -> AbstractContextManager[Waiting | None]:
    """While the `with` block runs, collect receipts of the topic's subscriptions for the publisher.

    If `wait` is None, do nothing.

    Raises:
        ValidationFailedError: The acknowledgement condition is not valid.
    """
    if wait is None:
        return nullcontext()
    text = query_value(scope, PATH)
    enough = None if text is None else ack_condition(text).acknowledges
    return waiters.waiting(lambda: directory.subscribers(topic), within=wait, enough=enough)


async def waited(waiting: Waiting, message_id: bytes, receive: Receive) -> tuple[int, bytes]:
    """Wait, and return status and body of the response.

    202 means that the message is stored, but not acknowledged.

    Raises:
        ClientGoneError: The client closed the connection.
    """
    body: bytes | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(_until_gone(receive))
            outcomes = await waiting.outcomes()
            body = _answer(message_id, outcomes, waiting)
            watch.cancel()
    except* ClientGoneError:
        pass  # if there is no response yet, the error is raised again below
    if body is None:
        raise ClientGoneError
    return stored_status(waiting), body


def stored_status(waiting: Waiting | None) -> int:
    """Return 202 if an acknowledgement was requested and is missing, otherwise 201."""
    unacknowledged = waiting is not None and waiting.acknowledged is False
    return HTTPStatus.ACCEPTED if unacknowledged else HTTPStatus.CREATED


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientGoneError


def _answer(message_id: bytes, outcomes: Iterable[SubscriberOutcome], waiting: Waiting) -> bytes:
    answer: dict[str, Any] = {"id": message_id.decode(), "complete": waiting.complete}
    if waiting.acknowledged is not None:
        answer["acknowledged"] = waiting.acknowledged
    answer["subscriptions"] = [_outcome_json(each) for each in outcomes]
    return orjson.dumps(answer)


def _outcome_json(outcome: SubscriberOutcome) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": outcome.name, "outcome": outcome.outcome.value}
    if outcome.status is not None:
        fields["status"] = outcome.status
    if outcome.reason is not None:
        fields["reason"] = outcome.reason
    return fields

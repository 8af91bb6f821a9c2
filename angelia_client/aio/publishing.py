"""Publishing messages."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import uuid4

from angelia_client.aio.sending import AsyncSender
from angelia_client.batches import GivenIds, body_of, requests_for, results_in
from angelia_client.errors import DuplicateError, RefusedError
from angelia_client.messages import BatchResult, Outcome, Published
from angelia_client.requests import Answer, Request, query_of, topic_path


class AsyncPublishing:
    """Publishes to topics."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def publish(
        self,
        topic: str,
        message: object,
        *,
        key: str | None = None,
        message_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        wait: timedelta | None = None,
        ack_expression: str | None = None,
        mandatory: bool = False,
    ) -> Published:
        """Publish a message, and return when it is stored.

        `message` is sent unchanged if it is bytes, which must be JSON; otherwise it is converted to
        JSON. Messages with the same `key` share a partition. Without `message_id` it gets a new id,
        so that a repeated request is the same message; a topic with `deduplication` then stores it
        once. With `wait` (at most 30 s) the response has the outcome at each subscription; it comes
        as soon as `ack_expression` (CEL, `delivered >= 1`) is true, if given. `mandatory`: refuse
        it, or use the topic's `alternateTopic`, if no subscription takes it.

        Raises:
            DuplicateError: The topic refuses duplicates; with a `message_id` also for a message
                that had to be sent twice.
        """
        given_id = message_id or str(uuid4())
        said = {"Content-Type": "application/json", "Idempotency-Key": given_id}
        query = {
            "wait": None if wait is None else f"{wait // timedelta(milliseconds=1)}ms",
            "ackExpression": ack_expression,
            "mandatory": True if mandatory else None,
        }
        request = Request(
            method="POST",
            path=topic_path(topic) + query_of(query),
            body=body_of(message),
            headers={**said, **({} if key is None else {"Partition-Key": key}), **(headers or {})},
            repeatable=True,
            patience=wait or timedelta(0),
        )
        try:
            return _published(await self._sender.send(request))
        except DuplicateError as error:
            # No other message has this id: it was stored before, and the response was lost.
            if message_id is not None or error.duplicate_of != given_id:
                raise
            return Published(message_id=given_id, duplicate=True)

    async def publish_batch(self, topic: str, messages: Iterable[object]) -> list[BatchResult]:
        """Publish messages in as few requests as possible; return a result for each, in order.

        They are bytes of JSON, values that become JSON, or NewMessage with key and id. Some may be
        stored while others are refused: check each result.

        Raises:
            RefusedError: A whole request is refused (invalid JSON, no permission to publish);
                messages of earlier requests are stored.
        """
        results: list[BatchResult] = []
        given = GivenIds()
        for request in requests_for(topic, given.noted(messages)):
            results += map(given.settled, await self._batch(request))
        return results

    async def _batch(self, request: Request) -> list[BatchResult]:
        try:
            answer = await self._sender.send(request)
        except RefusedError as error:
            if (results := results_in(error)) is None:
                raise
            return results
        return [BatchResult.of(each) for each in answer.listed()]


def _published(answer: Answer) -> Published:
    headers = answer.headers
    told = answer.json() if answer.body else {}
    count = headers.get("angelia-subscriptions")
    return Published(
        message_id=headers.get("hermes-message-id", ""),
        subscriptions=None if count is None else int(count),
        duplicate=headers.get("angelia-duplicate") == "true",
        alternate_topic=headers.get("angelia-alternate-topic"),
        complete=told.get("complete"),
        acknowledged=told.get("acknowledged"),
        outcomes=tuple(Outcome.of(each) for each in told.get("subscriptions", ())),
    )

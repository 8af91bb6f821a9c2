"""Publishing messages."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import uuid4

from angelia_client.aio.sending import AsyncSender
from angelia_client.batches import GivenIds, body_of, requests_for, results_in
from angelia_client.errors import DuplicateError, RefusedError
from angelia_client.messages import BatchResult, Outcome, Published
from angelia_client.requests import Answer, Request, header_value, own_headers, query_of, topic_path


class AsyncPublishing:
    """Publishes messages to topics."""

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

        Args:
            topic: The name of the topic.
            message: Bytes of JSON, which are sent unchanged, or a value that is converted to JSON.
            key: The partition key. Messages with the same key are in the same partition.
            message_id: The id of the message. By default the client makes a new id. A repeated
                request has the same id, so a topic with `deduplication` stores one message.
            headers: Further headers of the request.
            wait: How long to wait for the outcome in each subscription, at most 30 s.
            ack_expression: A condition (CEL), such as `delivered >= 1`. The client stops waiting as
                soon as the condition is true.
            mandatory: Whether a subscription must get the message. If none gets it, the message
                goes to the topic's `alternateTopic`. Without an alternate topic, the message is
                refused.

        Raises:
            DuplicateError: The topic already has a message with this id. If you gave a
                `message_id`, that may be the same message: an earlier request stored it, and the
                response was lost.
            InvalidError: The key, the id or a header has a control character, or a space at an
                end. No request is sent. The service may refuse a request with this error, too.
        """
        given_id = header_value("message_id", message_id) if message_id else str(uuid4())
        usual = {"Content-Type": "application/json", "Idempotency-Key": given_id}
        own_key = {} if key is None else {"Partition-Key": header_value("key", key)}
        query = {
            "wait": None if wait is None else f"{wait // timedelta(milliseconds=1)}ms",
            "ackExpression": ack_expression,
            "mandatory": True if mandatory else None,
        }
        request = Request(
            method="POST",
            path=topic_path(topic) + query_of(query),
            body=body_of(message),
            headers={**usual, **own_key, **own_headers(headers or {})},
            repeatable=True,
            patience=wait or timedelta(0),
        )
        try:
            return _published(await self._sender.send(request))
        except DuplicateError as error:
            # The client made this message id, so no other message has the id. If the service
            # reports a duplicate, an earlier request of the client has stored the message, and its
            # response was lost.
            if message_id is not None or error.duplicate_of != given_id:
                raise
            return Published(message_id=given_id, duplicate=True)

    async def publish_batch(self, topic: str, messages: Iterable[object]) -> list[BatchResult]:
        """Publish messages in as few requests as possible.

        Return a result for each message, in the order of the messages. A message is bytes of JSON,
        a value that becomes JSON, or a NewMessage with key and id. Some messages may be stored
        while others are refused, so check each result.

        Raises:
            RefusedError: A whole request is refused (invalid JSON, no permission to publish). The
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
    fields = answer.json() if answer.body else {}
    count = headers.get("angelia-subscriptions")
    return Published(
        message_id=headers.get("hermes-message-id", ""),
        subscriptions=None if count is None else int(count),
        duplicate=headers.get("angelia-duplicate") == "true",
        alternate_topic=headers.get("angelia-alternate-topic"),
        complete=fields.get("complete"),
        acknowledged=fields.get("acknowledged"),
        outcomes=tuple(Outcome.of(each) for each in fields.get("subscriptions", ())),
    )

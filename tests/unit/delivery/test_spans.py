"""The spans of attempts, without a worker."""

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.message import Message, Partition, Record
from app.otlp.context import SpanContext
from app.otlp.spans import SpanBuffer
from workers.delivery.oauth.destination import Header
from workers.delivery.spans import SpannedDestination


class Scripted:
    """A destination that waits, and ends its attempts by a script."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = [*outcomes]

    def begin(
        self, message: Message, retry_count: int, listener: object, *, authorization: object = None
    ) -> None: ...

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        del message, retry_count, authorization
        return self.outcomes.pop(0)


async def test_what_was_not_sent_has_no_span() -> None:
    spans = SpanBuffer()
    scripted = Scripted(
        Retry(reason="too late", blameless=True, unsent=True), Delivered(status=200)
    )
    subscription = Subscription(id="s-1", topic="g.t", name="s", endpoint="http://127.0.0.1/")
    destination = SpannedDestination(scripted, spans, subscription)
    message = Message(Record(0, 0, None, b"{}", []), Partition("g.t", 0))
    message.propagated = [(b"traceparent", SpanContext.root().header())]
    await destination.attempt(message, retry_count=0)
    assert len(spans) == 0
    await destination.attempt(message, retry_count=0)
    # The wait in the log, and the attempt.
    assert len(spans) == 2

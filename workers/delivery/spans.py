"""Attempts as OpenTelemetry spans, between the publisher's span and the subscriber's span."""

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.delivery import Delivered, Outcome, Retry
from app.domain.message import Message
from app.otlp.context import SpanContext, context_in, with_context
from app.otlp.spans import Attribute, Span, SpanBuffer, SpanKind
from workers.delivery.batch import MessageBatch
from workers.delivery.in_flight import ResponseListener, StartedRequest
from workers.delivery.oauth.destination import Authorizable, Header

# The maximum number of messages whose traces a batch links to.
LINKS_MAX: Final = 128


class SpannedDestination:
    """Records a span for each attempt of `inner`, if the message belongs to a recorded trace.

    The subscriber gets the attempt's span as its parent in `traceparent`. A message without a
    recorded trace is sent unchanged.
    """

    __slots__ = ("_inner", "_spans", "_subscription")

    def __init__(self, inner: Authorizable, spans: SpanBuffer, subscription: Subscription) -> None:
        self._inner = inner
        self._spans = spans
        self._subscription = subscription

    def begin(
        self,
        message: Message,
        retry_count: int,
        listener: ResponseListener,
        *,
        authorization: Header | None = None,
    ) -> StartedRequest | None:
        """Start an attempt with a span, if it does not have to wait. Otherwise return None."""
        attempt = self._attempt(message, retry_count)
        if attempt is None:
            return self._inner.begin(message, retry_count, listener, authorization=authorization)
        return self._inner.begin(
            attempt.sent,
            retry_count,
            _ResponseListener(attempt, listener),
            authorization=authorization,
        )

    async def attempt(
        self, message: Message, *, retry_count: int, authorization: Header | None = None
    ) -> Outcome:
        """Send one POST, and record its span."""
        attempt = self._attempt(message, retry_count)
        if attempt is None:
            return await self._inner.attempt(
                message, retry_count=retry_count, authorization=authorization
            )
        outcome = await self._inner.attempt(
            attempt.sent, retry_count=retry_count, authorization=authorization
        )
        attempt.ended(outcome)
        return outcome

    def _attempt(self, message: Message, retry_count: int) -> "_Attempt | None":
        if isinstance(message, MessageBatch):
            links = tuple(_recorded(message))[:LINKS_MAX]
            if not links:
                return None
            # Start a new trace for a batch, because its messages may belong to different traces.
            own, parent = SpanContext.root(), None
        else:
            parent = context_in(message.propagated) if message.propagated else None
            if parent is None or not parent.sampled:
                return None
            own, links = parent.child(), ()
        sent = copy(message)
        sent.propagated = with_context(message.propagated, own)
        return _Attempt(
            spans=self._spans,
            subscription=self._subscription,
            message=message,
            sent=sent,
            own=own,
            parent=parent,
            links=links,
            retry_count=retry_count,
            start_ns=time.time_ns(),
        )


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """An attempt with a span. `sent` is the message as the subscriber gets it."""

    spans: SpanBuffer
    subscription: Subscription
    message: Message
    sent: Message
    own: SpanContext
    parent: SpanContext | None
    links: tuple[SpanContext, ...]
    retry_count: int
    start_ns: int

    def ended(self, outcome: Outcome | None) -> None:
        """End the span. None means that an unexpected error ended the attempt."""
        if isinstance(outcome, Retry) and outcome.unsent:
            return
        if self.retry_count == 0 and self.parent is not None:
            self._add_wait(self.parent)
        attributes = self._attributes()
        if outcome is not None and outcome.status is not None:
            attributes["http.response.status_code"] = outcome.status
        self.spans.add(
            Span(
                name=f"deliver {self._destination}",
                kind=SpanKind.CLIENT,
                context=self.own,
                parent=self.parent,
                links=self.links,
                start_ns=self.start_ns,
                end_ns=time.time_ns(),
                attributes=attributes | {"http.request.resend_count": self.retry_count},
                error=_error(outcome),
            )
        )

    def _add_wait(self, parent: SpanContext) -> None:
        """Add a span from the publication of the message to its first attempt.

        In this time the message is in the log and in the consumer.
        """
        self.spans.add(
            Span(
                name=f"wait {self._destination}",
                kind=SpanKind.CONSUMER,
                context=parent.child(),
                parent=parent,
                # Keep the start time between 1970 and the end of the span, because clocks differ,
                # and producers may set any time of publication.
                start_ns=max(0, min(self.message.published_ms * 1_000_000, self.start_ns)),
                end_ns=self.start_ns,
                attributes=self._attributes(),
            )
        )

    @property
    def _destination(self) -> str:
        return f"{self.subscription.topic}/{self.subscription.name}"

    def _attributes(self) -> dict[str, Attribute]:
        message = self.message
        return {
            "messaging.system": "angelia",
            "messaging.destination.name": self.subscription.topic,
            "messaging.consumer.group.name": self.subscription.group,
            "messaging.message.id": message.id.decode("latin-1"),
            "messaging.destination.partition.id": str(message.partition.index),
            "messaging.kafka.offset": message.offset,
        }


class _ResponseListener:
    """Receives the outcome of an attempt, ends its span, and passes the outcome to a listener."""

    __slots__ = ("_attempt", "_listener")

    def __init__(self, attempt: _Attempt, listener: ResponseListener) -> None:
        self._attempt = attempt
        self._listener = listener

    def on_response(self, outcome: Outcome) -> None:
        """Called with the outcome when the attempt has ended."""
        self._attempt.ended(outcome)
        self._listener.on_response(outcome)

    def on_defect(self, error: Exception) -> None:
        """Called when the attempt has ended, and its outcome is unknown."""
        self._attempt.ended(None)
        self._listener.on_defect(error)


def _recorded(batch: MessageBatch) -> Iterator[SpanContext]:
    for message in batch.messages:
        context = context_in(message.propagated) if message.propagated else None
        if context is not None and context.sampled:
            yield context


def _error(outcome: Outcome | None) -> str:
    if isinstance(outcome, Delivered):
        return ""
    return outcome.reason if outcome is not None else "Angelia failed"

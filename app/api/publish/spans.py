"""Publishing as an OpenTelemetry span: child of the publisher's span, parent of delivery spans."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.otlp.context import SpanContext, context_in, with_context
from app.otlp.spans import Attribute, Span, SpanBuffer, SpanKind

NamedBy = Callable[[Scope], str | None]
Dice = Callable[[], float]

_MESSAGE_ID: Final = b"hermes-message-id"


def topic_in_path(scope: Scope) -> str | None:
    """Return the topic that the router has found in the path."""
    name: str = scope["path_params"]["topic"]
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Which requests get a span, and where spans are sent.

    Attributes:
        spans: Collects the spans to send.
        share: Of the requests without a trace, the fraction for which a trace is started.
        dice: Draws a number from 0 to 1, which is compared with `share`.
    """

    spans: SpanBuffer
    share: float
    dice: Dice = random.random

    def parent_and_own(
        self, given: SpanContext | None
    ) -> tuple[SpanContext | None, SpanContext] | None:
        """Return the contexts of the parent and of the new span; None if there is no span.

        The process that started a trace decides whether it is recorded.
        """
        if given is not None:
            return (given, given.child()) if given.sampled else None
        return (None, SpanContext.root()) if self.dice() < self.share else None


class Spanned:
    """Records a span for each sampled request to `route`.

    Messages of sampled requests have this span in `traceparent`. Other messages have the
    `traceparent` that their publisher sent.
    """

    def __init__(self, route: ASGIApp, sampling: Sampling, *, named_by: NamedBy) -> None:
        self._route = route
        self._sampling = sampling
        self._named_by = named_by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        contexts = self._sampling.parent_and_own(context_in(scope["headers"]))
        if contexts is None:
            await self._route(scope, receive, send)
            return
        parent, own = contexts
        answered: dict[str, Attribute] = {}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.update(_answer_attributes(message))
            await send(message)

        start_ns = time.time_ns()
        await self._route({**scope, "headers": with_context(scope["headers"], own)}, receive, noted)
        self._sampling.spans.add(
            Span(
                name=f"send {self._named_by(scope) or ''}",
                kind=SpanKind.PRODUCER,
                context=own,
                parent=parent,
                start_ns=start_ns,
                end_ns=time.time_ns(),
                attributes=self._attributes(scope) | answered,
                error=_error(answered),
            )
        )

    def _attributes(self, scope: Scope) -> dict[str, Attribute]:
        return {
            "messaging.system": "angelia",
            "messaging.operation.type": "send",
            "messaging.destination.name": self._named_by(scope) or "",
        }


def _answer_attributes(start: Message) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"http.response.status_code": int(start["status"])}
    for name, value in start["headers"]:
        if name == _MESSAGE_ID:
            attributes["messaging.message.id"] = value.decode("latin-1")
    return attributes


def _error(attributes: dict[str, Attribute]) -> str:
    status = attributes.get("http.response.status_code")
    if not isinstance(status, int):
        return "The publisher went away"
    return "" if status < HTTPStatus.BAD_REQUEST else HTTPStatus(status).phrase

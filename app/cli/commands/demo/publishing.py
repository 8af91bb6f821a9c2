"""Publishes the events of the demo, evenly over time."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from typing import Final

from angelia_client import AsyncAngelia, RefusedError
from app.cli.commands.demo.events import Event
from app.cli.commands.demo.subscribers import digest

_PUBLISHERS: Final = 16
_TRIES: Final = 5
_UNAVAILABLE: Final = frozenset({429, 503})
_TRY_AGAIN_AFTER_S: Final = 1.0


class Publishing:
    """Publishes the events of the demo to a topic.

    `published` maps the id of each published message to the digest of its body.
    """

    def __init__(
        self, api: AsyncAngelia, topic: str, events: Iterator[Event], *, per_second: float
    ) -> None:
        self._api = api
        self._topic = topic
        self._stream = secrets.token_hex(6)
        self._events = events
        self._per_second = per_second
        self.published: dict[str, bytes] = {}

    async def run(self) -> None:
        """Publish all events, and then return.

        Raises:
            ClientError: The API refuses a message.
        """
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(_PUBLISHERS):
                group.create_task(self._publisher(started))

    async def _publisher(self, started: float) -> None:
        # All publishers take events from the same iterator, so that each event is published once.
        for event in self._events:
            due = started + event.sequence / self._per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            message_id = await self._publish(event)
            self.published[message_id] = digest(event.body)

    async def _publish(self, event: Event) -> str:
        for _ in range(_TRIES - 1):
            try:
                return await self._try(event)
            except RefusedError as exc:
                if exc.status not in _UNAVAILABLE:
                    raise
            await asyncio.sleep(_TRY_AGAIN_AFTER_S)
        return await self._try(event)

    async def _try(self, event: Event) -> str:
        # Each event has a fixed message id. If a message was stored but the response was lost, the
        # repeated request does not store the message again.
        own_id = f"{self._stream}-{event.sequence}"
        published = await self._api.publish(
            self._topic, event.body, key=event.key, message_id=own_id
        )
        return published.message_id

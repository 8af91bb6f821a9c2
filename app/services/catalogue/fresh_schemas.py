"""Looks up schema versions that a publisher names, and that this process does not know yet."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from app.domain.errors import AngeliaError

# The shortest time, in seconds, between two look-ups of the schema versions of one topic. It does
# not depend on the number of messages.
LOOK_AGAIN_S: Final = 1.0
# The maximum number of topics for which the time of the last look-up is remembered.
TOPICS_MAX: Final = 1_000

Look = Callable[[str], Awaitable[None]]
Clock = Callable[[], float]


class FreshSchemas:
    """Looks up a topic's newest schema versions in the registry, if needed, at a limited rate."""

    def __init__(
        self,
        take_in: Callable[[], Awaitable[None]],
        *,
        mirror: Look | None = None,
        clock: Clock = monotonic,
    ) -> None:
        """Create a `FreshSchemas`.

        `take_in` reads changes of topics from the database into the directory. `mirror` takes new
        schema versions of a topic from the registry; None if there is no registry.
        """
        self._take_in = take_in
        self._mirror = mirror
        self._clock = clock
        self._looked: dict[str, float] = {}

    async def look(self, topic: str) -> None:
        """Wait until all schema versions of the topic that can be found are in the directory.

        Each topic is looked up at most once in LOOK_AGAIN_S. Errors are not raised.
        """
        now = self._clock()
        if now - self._looked.get(topic, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
            return
        if len(self._looked) >= TOPICS_MAX:
            self._looked.clear()
        self._looked[topic] = now
        with suppress(AngeliaError):
            if self._mirror is not None:
                await self._mirror(topic)
            await self._take_in()

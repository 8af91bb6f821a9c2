"""Versions of schemas that publishers name before this process has heard of them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from app.domain.errors import AngeliaError

# A topic is looked up once in so many seconds, for however many messages.
LOOK_AGAIN_S: Final = 1.0
TOPICS_MAX: Final = 1_000

Look = Callable[[str], Awaitable[None]]
Clock = Callable[[], float]


class FreshSchemas:
    """Looks for a topic's newest versions, where they come from, on demand; each now and then."""

    def __init__(
        self,
        take_in: Callable[[], Awaitable[None]],
        *,
        mirror: Look | None = None,
        clock: Clock = monotonic,
    ) -> None:
        """`take_in` reads changes into the directory; `mirror` asks the registry for a topic's."""
        self._take_in = take_in
        self._mirror = mirror
        self._clock = clock
        self._looked: dict[str, float] = {}

    async def look(self, topic: str) -> None:
        """Return when the directory is as new as it gets; never raises."""
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

"""The fencing token of a cursor, while discards of it may be recorded and not committed."""

import asyncio
import secrets
from typing import Final

_NAME_BYTES: Final = 6


class ProducerEpoch:
    """Begins before the first discard: the next owner must know which discards go with a commit.

    See `app.domain.discards.retractions`.
    """

    __slots__ = ("_over", "is_committed", "name")

    def __init__(self) -> None:
        self.name = secrets.token_hex(_NAME_BYTES)
        # Whether a commit has named it.
        self.is_committed = False
        self._over = asyncio.Event()

    def committed(self) -> None:
        """It is durable in a commit: discards may be recorded."""
        self.is_committed = True
        self._over.set()

    def end(self) -> None:
        """It will never be in a commit."""
        self._over.set()

    async def begun(self) -> None:
        """Wait until it is committed, or will never be."""
        await self._over.wait()

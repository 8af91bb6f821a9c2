"""The fencing token of a cursor: marks discards that are recorded but not committed."""

import asyncio
import secrets
from typing import Final

_NAME_BYTES: Final = 6


class ProducerEpoch:
    """A fencing token, which must be committed before the first discard of a cursor.

    The token shows the partition's next owner which recorded discards belong to a commit. See
    `app.domain.discards.retractions`.
    """

    __slots__ = ("_over", "is_committed", "name")

    def __init__(self) -> None:
        self.name = secrets.token_hex(_NAME_BYTES)
        # Whether a commit contains this token.
        self.is_committed = False
        self._over = asyncio.Event()

    def committed(self) -> None:
        """Called when a commit contains this token. From then on, discards may be recorded."""
        self.is_committed = True
        self._over.set()

    def end(self) -> None:
        """Called when no commit will ever contain this token."""
        self._over.set()

    async def begun(self) -> None:
        """Wait until a commit contains this token, or until no commit can contain it any more."""
        await self._over.wait()

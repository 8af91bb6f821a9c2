"""Making schemas ready for messages beside the event loop: a large one takes a while."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX, ContentType
from app.domain.errors import ValidationFailedError
from app.schemas.compiled import is_made, require_schema


class SchemaMaking:
    """Makes schemas ready in a thread, one at a time: many would take the loop's share of CPU."""

    def __init__(self, make: Callable[[ContentType, str], None] = require_schema) -> None:
        self._make = make
        # A lock would not do: a thread goes on when who waits for it is cancelled.
        self._one = ThreadPoolExecutor(max_workers=1, thread_name_prefix="schema-making")

    async def ready(self, kind: ContentType, text: str) -> None:
        """Return when `require_schema` answers at once, be it that the text is no schema."""
        if not is_made(kind, text) and len(text) <= SCHEMA_LENGTH_MAX:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._one, self._made, kind, text)

    def _made(self, kind: ContentType, text: str) -> None:
        if not is_made(kind, text):
            with suppress(ValidationFailedError):
                self._make(kind, text)

"""Making schemas ready for messages beside the event loop: a large one takes a while."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX, ContentType
from app.domain.errors import ValidationFailedError
from app.schemas.compiled import is_made, require_schema


class SchemaMaking:
    """Makes schemas ready in a thread, one at a time: many would take the loop's share of CPU."""

    def __init__(self, make: Callable[[ContentType, str], None] = require_schema) -> None:
        self._make = make
        self._one = asyncio.Lock()

    async def ready(self, kind: ContentType, text: str) -> None:
        """Return when `require_schema` answers at once, be it that the text is no schema."""
        if is_made(kind, text) or len(text) > SCHEMA_LENGTH_MAX:
            return
        async with self._one:
            if not is_made(kind, text):
                with suppress(ValidationFailedError):
                    await asyncio.to_thread(self._make, kind, text)

"""Compiles schemas on a thread before messages need them, because a large schema takes long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from app.domain.catalogue.schema import SCHEMA_LENGTH_MAX, ContentType
from app.domain.catalogue.topic import Topic
from app.domain.errors import ValidationFailedError
from app.schemas.compiled import is_made, require_schema
from app.schemas.versions import require_backward


class SchemaMaking:
    """Compiles and compares schemas on one thread, one schema at a time.

    With more threads, the event loop would get less CPU time.
    """

    def __init__(
        self,
        make: Callable[[ContentType, str], None] = require_schema,
        compare: Callable[[Topic, str], None] = require_backward,
    ) -> None:
        self._make = make
        self._compare = compare
        # There is one thread, and not a lock. If a caller that waits for the thread is cancelled,
        # the thread continues, and the next schema must wait.
        self._one = ThreadPoolExecutor(max_workers=1, thread_name_prefix="schema-making")

    async def ready(self, kind: ContentType, text: str) -> None:
        """Wait until the result of `require_schema` is cached. The result may be an error."""
        if not is_made(kind, text) and len(text) <= SCHEMA_LENGTH_MAX:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._one, self._made, kind, text)

    async def compared(self, topic: Topic, text: str) -> None:
        """Wait until the result of `require_backward` is cached. The result may be an error."""
        if topic.content_type is ContentType.AVRO and topic.schema is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._one, self._compared, topic, text)

    def begin(self, kind: ContentType, text: str) -> Future[None]:
        """Start to compile the schema, without waiting for the result."""
        return self._one.submit(self._made, kind, text)

    def _compared(self, topic: Topic, text: str) -> None:
        with suppress(ValidationFailedError):
            self._compare(topic, text)

    def _made(self, kind: ContentType, text: str) -> None:
        if not is_made(kind, text):
            with suppress(ValidationFailedError):
                self._make(kind, text)

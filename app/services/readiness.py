"""Whether this process can do its work."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Final

from app.domain.errors import UnavailableError
from app.log.interface import MessageLog
from app.storage.database import Database

ANSWER_WITHIN: Final = timedelta(seconds=1)


class ReadinessService:
    """Asks the parts this process needs."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def parts(self) -> Mapping[str, bool]:
        """Per part (log, database, migrations) whether it is as it should be, within a second."""
        log, migrated = await asyncio.gather(
            _answered(self._log.ping()), _answered(self._database.migrated())
        )
        return {
            "log": log is not _NO_ANSWER,
            "database": migrated is not _NO_ANSWER,
            "migrations": migrated is True,
        }


_NO_ANSWER: Final = object()


async def _answered(question: Awaitable[object]) -> object:
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await question
    except (TimeoutError, UnavailableError):
        return _NO_ANSWER

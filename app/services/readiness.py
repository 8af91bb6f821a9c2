"""Whether this process can do its work."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Final

from app.domain.errors import UnavailableError
from app.log.interface import MessageLog
from app.storage.database import Database
from app.storage.operations import DatacenterRepository

ANSWER_WITHIN: Final = timedelta(seconds=1)


class ReadinessService:
    """Asks the parts this process needs."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log

    async def parts(self) -> Mapping[str, bool]:
        """Per part whether it is as it should be, within a second.

        The parts are log, database, migrations, and the datacenter, which operators may take out
        of service.
        """
        log, migrated, in_service = await asyncio.gather(
            _answered(self._log.ping()),
            _answered(self._database.migrated()),
            _answered(self._in_service()),
        )
        return {
            "log": log is not _NO_ANSWER,
            "database": migrated is not _NO_ANSWER,
            "migrations": migrated is True,
            "datacenter": in_service is not False,
        }

    async def _in_service(self) -> bool:
        async with self._database.transaction() as session:
            return await DatacenterRepository(session).is_ready()


_NO_ANSWER: Final = object()


async def _answered(question: Awaitable[object]) -> object:
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await question
    except (TimeoutError, UnavailableError):
        return _NO_ANSWER

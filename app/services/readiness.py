"""Checks whether this API process is ready to answer requests."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from app.domain.errors import UnavailableError
from app.log.interface import MessageLog
from app.log.throttling import throttled
from app.services.publishing.writability import Writability
from app.storage.catalogue.operations import DatacenterRepository
from app.storage.database import Database

ANSWER_WITHIN: Final = timedelta(seconds=1)


class ReadinessService:
    """Checks the log, the database and other parts that this API process needs."""

    def __init__(
        self, database: Database, log: MessageLog, writability: Writability | None = None
    ) -> None:
        self._database = database
        self._log = log
        self._writability = writability or Writability()

    async def waits(self) -> Mapping[str, str]:
        """Return, by the name of each part, why the part is not ready; an empty text if it is.

        This takes at most a second. The parts are: log, logWritable (whether the log stores
        messages), database, migrations (whether the tables are up to date), and datacenter, which
        operators may take out of service.
        """
        log, migrated, in_service = await asyncio.gather(
            _answered(self._log.ping()),
            _answered(self._database.migrated()),
            _answered(self._in_service()),
        )
        return {
            "log": _reason(log),
            "logWritable": self._writability.problem,
            "database": _reason(migrated),
            "migrations": "" if migrated is True else _reason(migrated) or _NOT_MIGRATED,
            "datacenter": "" if in_service is not False else _OUT_OF_SERVICE,
        }

    def throttled(self) -> Sequence[str]:
        """Return a line of text about each Kafka broker that slows down this process."""
        return throttled(self._log.stats)

    async def _in_service(self) -> bool:
        async with self._database.transaction() as session:
            return await DatacenterRepository(session).is_ready()


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    reason: str


_NOT_MIGRATED: Final = "the database has not the tables of this version: run `angelia migrate`"
_OUT_OF_SERVICE: Final = "operators took the data centre out of service"


async def _answered(question: Awaitable[object]) -> object:
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await question
    except TimeoutError:
        return _NoAnswer(f"no answer within {ANSWER_WITHIN.total_seconds():g} s")
    except UnavailableError as error:
        return _NoAnswer(error.message)


def _reason(answer: object) -> str:
    return answer.reason if isinstance(answer, _NoAnswer) else ""

"""Reports settings and topics that can cause the loss of acknowledged messages."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from app.domain.catalogue.topic import Ack
from app.domain.durability import Copies, Replication, risks
from app.domain.errors import LogUnavailableError, StorageUnavailableError
from app.domain.streams import OWN
from app.log.interface import MessageLog
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# The shortest time between two queries of all topics in Kafka and the database. There is a limit,
# because requests of clients trigger these queries.
LOOK_EVERY: Final = timedelta(minutes=1)
# After this time the topics are queried again, if Kafka or the database did not respond.
LOOK_AGAIN: Final = timedelta(seconds=5)


class DurabilityService:
    """Reports which settings, and which topics in Kafka, can lose acknowledged messages."""

    def __init__(
        self,
        database: Database,
        replication: Replication | None,
        log: MessageLog,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a `DurabilityService`; `replication` has the settings for Kafka.

        If `replication` is None, the log is in PostgreSQL, with one copy.
        """
        self._database = database
        self._replication = replication
        self._log = log
        self._clock = clock
        self._looking = asyncio.Lock()
        self._look_at = float("-inf")
        # The risks that the last query found. The texts under True name topics, those under False
        # do not.
        self._found: Mapping[bool, Sequence[str]] = {}

    async def risks(self, *, with_names: bool) -> Sequence[str]:
        """Return a sentence for each risk, with the names of topics if `with_names` is true.

        The result is empty if the loss of one broker would lose no acknowledged messages. It is
        also empty if the log is in PostgreSQL.
        """
        if self._replication is None:
            return ()
        # Let concurrent calls wait for one query, and share its result.
        async with self._looking:
            if self._clock() >= self._look_at:
                await self._look(self._replication)
        return self._found[with_names]

    async def _look(self, replication: Replication) -> None:
        """Read topics from database and log, and find the risks."""
        known, by_leader, no_topics = await self._topics()
        there, no_copies = await self._copies()
        # Use only Angelia's topics, because other programs may use the same Kafka.
        ours = {name: copies for name, copies in there.items() if name in known}
        unknown = [each for each in (no_topics, no_copies) if each]
        self._found = {
            named: (
                *risks(replication, by_leader=by_leader, there=ours, with_names=named),
                *unknown,
            )
            for named in (True, False)
        }
        pause = LOOK_AGAIN if unknown else LOOK_EVERY
        self._look_at = self._clock() + pause.total_seconds()

    async def _topics(self) -> tuple[Collection[str], Sequence[str], str]:
        """Return the names of all Angelia's topics, the names of those with ack LEADER, and a text.

        If the topics are unknown, the text says why. Otherwise the text is empty.
        """
        try:
            async with self._database.transaction() as session:
                topics = TopicRepository(session)
                by_leader = await topics.acknowledged_by(Ack.LEADER)
                return OWN.union(await topics.names()), by_leader, ""
        except StorageUnavailableError as error:
            return OWN, (), f"which topics there are is not known: {error.message}"

    async def _copies(self) -> tuple[Mapping[str, Copies], str]:
        """Return the replicas of all topics in the log, and a text.

        If the replicas are unknown, the text says why. Otherwise the text is empty.
        """
        try:
            return await self._log.copies(), ""
        except LogUnavailableError as error:
            return {}, f"how many replicas topics have is not known: {error.message}"

"""Where messages that were acknowledged can be lost."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from app.domain.durability import Copies, Replication, risks
from app.domain.errors import LogUnavailableError, StorageUnavailableError
from app.domain.streams import OWN
from app.domain.topic import Ack
from app.log.interface import MessageLog
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# Whoever may ask makes Kafka tell of all topics no more often than that.
LOOK_EVERY: Final = timedelta(minutes=1)
# One that did not answer is asked again so soon.
LOOK_AGAIN: Final = timedelta(seconds=5)


class DurabilityService:
    """Says what of the settings, and of the topics in Kafka, lets acknowledged messages be lost."""

    def __init__(
        self,
        database: Database,
        replication: Replication | None,
        log: MessageLog,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`replication` is Kafka's; None: the log is kept in PostgreSQL, which has one copy."""
        self._database = database
        self._replication = replication
        self._log = log
        self._clock = clock
        self._looking = asyncio.Lock()
        self._look_at = float("-inf")
        self._there: Mapping[str, Copies] = {}
        self._unknown = ""

    async def risks(self, *, with_names: bool) -> Sequence[str]:
        """Each in words, `with_names` of topics; none where nothing is lost with one broker."""
        if self._replication is None:
            return ()
        known, by_leader, unknown = await self._topics()
        await self._look()
        # Others may use the same Kafka.
        ours = {name: copies for name, copies in self._there.items() if name in known}
        found = risks(self._replication, by_leader=by_leader, there=ours, with_names=with_names)
        return (*found, *(each for each in (unknown, self._unknown) if each))

    async def _topics(self) -> tuple[Collection[str], Sequence[str], str]:
        """All of ours, and those with ack LEADER; or why they are not known."""
        try:
            async with self._database.transaction() as session:
                topics = TopicRepository(session)
                by_leader = await topics.acknowledged_by(Ack.LEADER)
                return OWN.union(await topics.names()), by_leader, ""
        except StorageUnavailableError as error:
            return OWN, (), f"which topics there are is not known: {error.message}"

    async def _look(self) -> None:
        """Know what the log has; those who ask together look once."""
        async with self._looking:
            if self._clock() < self._look_at:
                return
            pause = LOOK_EVERY
            try:
                self._there, self._unknown = await self._log.copies(), ""
            except LogUnavailableError as error:
                self._there, pause = {}, LOOK_AGAIN
                self._unknown = f"how many replicas topics have is not known: {error.message}"
            self._look_at = self._clock() + pause.total_seconds()

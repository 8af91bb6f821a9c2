"""Where messages that were acknowledged can be lost."""

from collections.abc import Sequence

from app.domain.durability import Replication, risks
from app.domain.errors import StorageUnavailableError
from app.domain.topic import Ack
from app.storage.database import Database
from app.storage.topics import TopicRepository


class DurabilityService:
    """Says what of the settings lets acknowledged messages be lost."""

    def __init__(self, database: Database, replication: Replication | None) -> None:
        """`replication` is Kafka's; None: the log is kept in PostgreSQL, which has one copy."""
        self._database = database
        self._replication = replication

    async def risks(self) -> Sequence[str]:
        """Each in words; none where nothing is lost with one broker."""
        if self._replication is None:
            return ()
        try:
            async with self._database.transaction() as session:
                by_leader = await TopicRepository(session).acknowledged_by(Ack.LEADER)
        except StorageUnavailableError as error:
            unknown = f"which topics have ack LEADER is not known: {error.message}"
            return (*risks(self._replication, by_leader=()), unknown)
        return tuple(risks(self._replication, by_leader=by_leader))

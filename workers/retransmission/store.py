"""Where the retransmissions are that workers send."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from app.domain.catalogue.subscription import Subscription
from app.domain.discards.undelivered import Undelivered
from app.domain.message import Record
from app.domain.replay.retransmission import MessageRun, RetransmissionState, Sent
from app.domain.replay.sending_rate import Sending
from app.storage.database import Database
from app.storage.replay.sending import SendingRepository


class RetransmissionStore(Protocol):
    """Retransmissions for one worker; see `DatabaseRetransmissions`."""

    async def take(self, lease: timedelta) -> Sending | None: ...  # noqa: D102 - documented there
    async def keep(  # noqa: D102 - the same
        self, sending: Sending, finished: int, lease: timedelta
    ) -> bool: ...
    async def subscription(self, sending: Sending) -> Subscription | None: ...  # noqa: D102 - the same
    async def sources(self, sending: Sending) -> Mapping[int, int]: ...  # noqa: D102 - the same
    async def ends(self, sending: Sending) -> Mapping[int, int]: ...  # noqa: D102 - the same
    async def sent_from(  # noqa: D102 - the same
        self, sending: Sending, partition: int, offset: int
    ) -> Sequence[int]: ...
    async def runs(  # noqa: D102 - the same
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]: ...
    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]: ...  # noqa: D102 - the same
    async def archived(  # noqa: D102 - the same
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]: ...
    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool: ...  # noqa: D102 - the same
    async def written(self, sending: Sending) -> int: ...  # noqa: D102 - the same
    async def end(  # noqa: D102 - the same
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None: ...
    async def release(self, sending: Sending) -> None: ...  # noqa: D102 - the same
    async def unmark(  # noqa: D102 - the same
        self, retransmission_id: str, positions: Sequence[tuple[int, int]]
    ) -> None: ...


class DatabaseRetransmissions:
    """The database as that place. Every method raises StorageUnavailableError."""

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker

    async def take(self, lease: timedelta) -> Sending | None:
        """The oldest that is nobody's, now this worker's for `lease`."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).take(lease)

    async def keep(self, sending: Sending, finished: int, lease: timedelta) -> bool:
        """Keep it, and report how many messages are finished; False when it is ours no more."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).keep(
                sending, finished=finished, lease=lease
            )

    async def subscription(self, sending: Sending) -> Subscription | None:
        """Its subscription as it is now; None when it is deleted."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).subscription(sending)

    async def sources(self, sending: Sending) -> Mapping[int, int]:
        """Where to go on, in each partition that messages were chosen of."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).sources(sending)

    async def ends(self, sending: Sending) -> Mapping[int, int]:
        """Of each partition it was appended to, the offset after the last of its messages."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).ends(sending)

    async def sent_from(self, sending: Sending, partition: int, offset: int) -> Sequence[int]:
        """The offsets of its messages in that partition, from `offset` on, in order."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).sent_from(
                sending, partition, offset
            )

    async def runs(
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]:
        """The next that were chosen of that partition: those that end behind `offset`."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).runs(
                sending, partition, offset, limit=limit
            )

    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        """The undelivered messages of those rows that are still there."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).discards(rows)

    async def archived(
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]:
        """Some of the records of a run that the log has no more, in order, from `first` on."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).archived(
                sending, run, first=first, limit=limit
            )

    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool:
        """Say what was appended; False when it is ours no more."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).record(sending, sent)

    async def written(self, sending: Sending) -> int:
        """How many of its messages were appended, as far as it is recorded."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).written(sending)

    async def end(
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None:
        """It has ended."""
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).end(sending, state, reason)

    async def release(self, sending: Sending) -> None:
        """Any worker may go on with it."""
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).release(sending)

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        """What was appended at these places is not sent: its discards may be sent again."""
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).unmark(retransmission_id, positions)

"""The store of the retransmissions that workers send, in the database."""

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
    """The retransmissions that one worker sends; see `DatabaseRetransmissions`."""

    async def take(self, lease: timedelta) -> Sending | None: ...  # noqa: D102 - documented in the class below
    async def keep(  # noqa: D102 - documented in the class below
        self, sending: Sending, finished: int, lease: timedelta
    ) -> bool: ...
    async def subscription(self, sending: Sending) -> Subscription | None: ...  # noqa: D102 - documented in the class below
    async def sources(self, sending: Sending) -> Mapping[int, int]: ...  # noqa: D102 - documented in the class below
    async def ends(self, sending: Sending) -> Mapping[int, int]: ...  # noqa: D102 - documented in the class below
    async def sent_from(  # noqa: D102 - documented in the class below
        self, sending: Sending, partition: int, offset: int
    ) -> Sequence[int]: ...
    async def runs(  # noqa: D102 - documented in the class below
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]: ...
    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]: ...  # noqa: D102 - documented in the class below
    async def archived(  # noqa: D102 - documented in the class below
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]: ...
    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool: ...  # noqa: D102 - documented in the class below
    async def written(self, sending: Sending) -> int: ...  # noqa: D102 - documented in the class below
    async def end(  # noqa: D102 - documented in the class below
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None: ...
    async def release(self, sending: Sending) -> None: ...  # noqa: D102 - documented in the class below
    async def unmark(  # noqa: D102 - documented in the class below
        self, retransmission_id: str, positions: Sequence[tuple[int, int]]
    ) -> None: ...


class DatabaseRetransmissions:
    """Retransmissions in the database. Every method may raise StorageUnavailableError."""

    def __init__(self, database: Database, worker: str) -> None:
        self._database = database
        self._worker = worker

    async def take(self, lease: timedelta) -> Sending | None:
        """Take the oldest retransmission that no worker sends, with a lease of the time `lease`."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).take(lease)

    async def keep(self, sending: Sending, finished: int, lease: timedelta) -> bool:
        """Renew the lease and report the number of finished messages.

        Returns:
            False if the lease is lost.
        """
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).keep(
                sending, finished=finished, lease=lease
            )

    async def subscription(self, sending: Sending) -> Subscription | None:
        """Return the current subscription of the retransmission; None if it was deleted."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).subscription(sending)

    async def sources(self, sending: Sending) -> Mapping[int, int]:
        """Return the offset from which to continue, for each partition with chosen messages."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).sources(sending)

    async def ends(self, sending: Sending) -> Mapping[int, int]:
        """Return, for each partition with appended messages, the offset after the last of them."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).ends(sending)

    async def sent_from(self, sending: Sending, partition: int, offset: int) -> Sequence[int]:
        """Return the offsets of appended messages in a partition, from `offset` on, in order."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).sent_from(
                sending, partition, offset
            )

    async def runs(
        self, sending: Sending, partition: int, offset: int, *, limit: int
    ) -> Sequence[MessageRun]:
        """Return the next runs of chosen messages in the partition, at most `limit`.

        A run consists of messages with consecutive offsets. Runs that end at or before `offset` are
        left out.
        """
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).runs(
                sending, partition, offset, limit=limit
            )

    async def discards(self, rows: Collection[int]) -> Mapping[int, Undelivered]:
        """Return the undelivered messages with the ids `rows`, if they still exist."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).discards(rows)

    async def archived(
        self, sending: Sending, run: MessageRun, *, first: int, limit: int
    ) -> Sequence[Record]:
        """Return records of a run from the archive, in order, from the offset `first` on.

        A run consists of messages with consecutive offsets. At most `limit` records are returned.
        """
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).archived(
                sending, run, first=first, limit=limit
            )

    async def record(self, sending: Sending, sent: Sequence[Sent]) -> bool:
        """Record the appended messages; return False if the lease is lost."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).record(sending, sent)

    async def written(self, sending: Sending) -> int:
        """Return how many messages of the retransmission are recorded as appended."""
        async with self._database.transaction() as session:
            return await SendingRepository(session, self._worker).written(sending)

    async def end(
        self, sending: Sending, state: RetransmissionState, reason: str | None = None
    ) -> None:
        """Record that the retransmission has ended."""
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).end(sending, state, reason)

    async def release(self, sending: Sending) -> None:
        """Release the retransmission, so that any worker may continue it."""
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).release(sending)

    async def unmark(self, retransmission_id: str, positions: Sequence[tuple[int, int]]) -> None:
        """Remove the mark "sent again" from messages that the retransmission does not send.

        Then their discards may be sent again.
        """
        async with self._database.transaction() as session:
            await SendingRepository(session, self._worker).unmark(retransmission_id, positions)

"""One incremental fetch session (KIP-227): the long poll at one broker."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from app.domain.message import Partition
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.partition_leaders import ReadSource
from app.log.kafka.protocol.fetches import FetchedPart, FetchRequest

CHUNK_BYTES_MAX: Final = 1024 * 1024

_LONG_POLL_MS: Final = 250
_EPOCH_MAX: Final = 2**31 - 1

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Followed:
    """A followed partition with its next offset.

    If a partition is followed again, a new object replaces this one.
    """

    partition: Partition
    offset: int


class SessionOwner(Protocol):
    """The reader that starts sessions. A session reports its records and its end to the reader."""

    polls: Fetcher

    async def room(self) -> None:
        """Wait until there is space in the buffer for more records."""

    def again(self, followed: Collection[Followed], source: ReadSource) -> None:
        """Look up the leaders of these partitions again, because `source` cannot serve them.

        `source` is a broker. The look-up starts after a pause.
        """

    async def arrived(
        self,
        requested: Mapping[Partition, Followed],
        parts: Iterable[FetchedPart],
        source: ReadSource,
    ) -> list[Followed]:
        """Pass the records of a response on to the reader's caller.

        Args:
            requested: the requested partitions.
            parts: the response for each partition.
            source: the broker that responded.

        Returns:
            The partitions that this broker cannot serve.
        """

    def session_ended(self, source: ReadSource) -> None:
        """Called when the session at the broker `source` has ended."""


class Session:
    """Long polls at one broker, as long as partitions are read from this broker.

    A poll takes time only for the partitions that changed since the last poll.
    """

    def __init__(self, reading: SessionOwner, source: ReadSource) -> None:
        self._reading = reading
        self._source = source
        self._members: dict[Partition, Followed] = {}
        self._id = 0
        self._epoch = 0
        # The partitions that belong to the session in the broker's view.
        self._known: set[Partition] = set()
        # The partitions whose new positions the next poll must send.
        self._unsent: set[Partition] = set()
        # The partitions that the next poll removes from the session.
        self._gone: set[Partition] = set()

    def enter(self, followed: Followed) -> None:
        """Read the partition from its offset on, beginning with the next poll."""
        self._members[followed.partition] = followed
        self._unsent.add(followed.partition)
        self._gone.discard(followed.partition)

    def leave(self, partition: Partition) -> None:
        """Stop reading the partition."""
        if self._members.pop(partition, None) is not None:
            self._unsent.discard(partition)
            if partition in self._known:
                self._gone.add(partition)

    async def run(self) -> None:
        """Poll until the session has no partitions, or the broker cannot be reached."""
        reading = self._reading
        while self._members and not reading.polls.closed:
            await reading.room()
            try:
                await self._poll()
            except Exception as error:  # noqa: BLE001 - reading continues after any error
                if not reading.polls.closed:
                    _log.info("kafka_tail_interrupted", broker=self._source.node, error=repr(error))
                break
        reading.session_ended(self._source)
        if self._members and not reading.polls.closed:
            reading.again(list(self._members.values()), self._source)

    async def _poll(self) -> None:
        # Remember which offsets this request is for. While it waits, a partition may get another
        # offset to read from. The response is not for that offset.
        requested = self._members.copy()
        answer = await self._reading.polls.fetch(self._source, self._request())
        if answer.error_code:
            self._start_over()
            return
        self._advance(answer.session_id)
        for wrong in await self._reading.arrived(requested, answer.parts, self._source):
            # While the answer was read, the partition may have been followed from another offset.
            # The answer is not for that offset.
            if self._members.get(wrong.partition) is wrong:
                self.leave(wrong.partition)
                self._reading.again([wrong], self._source)
        self._note_moved(requested, answer.parts)

    def _request(self) -> FetchRequest:
        """Return the next poll. It has all changes of the session since the last poll.

        After this call, the changes count as sent.
        """
        unsent, self._unsent = self._unsent, set()
        gone, self._gone = self._gone, set()
        self._known |= unsent
        self._known -= gone
        return FetchRequest(
            positions={each: self._members[each].offset for each in unsent},
            bytes_max=CHUNK_BYTES_MAX,
            wait_ms=_LONG_POLL_MS,
            session=(self._id, self._epoch),
            forgotten=gone,
        )

    def _note_moved(
        self, requested: Mapping[Partition, Followed], parts: Iterable[FetchedPart]
    ) -> None:
        """Remember the partitions in a response. The next poll must send their new positions."""
        for part in parts:
            followed = requested.get(part.partition)
            if followed is not None and self._members.get(part.partition) is followed:
                self._unsent.add(part.partition)

    def _advance(self, session_id: int) -> None:
        """Count up the session's epoch (the number of its next poll), after an accepted poll."""
        if not session_id:
            # The broker has no space for a session. Start again without a session, so that each
            # poll names all partitions.
            self._start_over()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1

    def _start_over(self) -> None:
        self._id, self._epoch = 0, 0
        self._known.clear()
        self._gone.clear()
        self._unsent = set(self._members)

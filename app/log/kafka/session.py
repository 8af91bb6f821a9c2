"""One incremental fetch session (KIP-227): the long poll at one broker."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from app.domain.message import Partition
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.protocol.fetches import FetchedPart, FetchRequest

CHUNK_BYTES_MAX: Final = 1024 * 1024

_LONG_POLL_MS: Final = 250
_EPOCH_MAX: Final = 2**31 - 1

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Followed:
    """A followed partition's next offset. Following it again creates a new object."""

    partition: Partition
    offset: int


class SessionOwner(Protocol):
    """The reader that owns the sessions."""

    polls: Fetcher

    async def room(self) -> None:
        """Wait until more may be fetched."""

    def again(self, followed: Collection[Followed]) -> None:
        """Look up the leaders of these again after a pause."""

    async def arrived(
        self, asked: Mapping[Partition, Followed], parts: Iterable[FetchedPart]
    ) -> list[Followed]:
        """Pass on the results of a fetch; return the partitions that this broker cannot serve."""

    def session_ended(self, node: int) -> None:
        """Called when the session's loop has ended."""


class Session:
    """The long poll at one broker, for as long as it has members there.

    A poll costs by the partitions with news since the last one, not by the number of members.
    """

    def __init__(self, reading: SessionOwner, node: int) -> None:
        self._reading = reading
        self._node = node
        self._members: dict[Partition, Followed] = {}
        self._id = 0
        self._epoch = 0
        # The broker's view of the session, and the changes for the next poll: positions to read
        # from, and partitions to drop.
        self._known: set[Partition] = set()
        self._unsaid: set[Partition] = set()
        self._gone: set[Partition] = set()

    def enter(self, followed: Followed) -> None:
        """Read it from its offset on, from the next poll on."""
        self._members[followed.partition] = followed
        self._unsaid.add(followed.partition)
        self._gone.discard(followed.partition)

    def leave(self, partition: Partition) -> None:
        """Stop reading it."""
        if self._members.pop(partition, None) is not None:
            self._unsaid.discard(partition)
            if partition in self._known:
                self._gone.add(partition)

    async def run(self) -> None:
        """Poll until there are no members, or the broker cannot be reached."""
        reading = self._reading
        while self._members and not reading.polls.closed:
            await reading.room()
            try:
                await self._poll()
            except Exception as error:  # noqa: BLE001 - whatever it was, its members are read on
                if not reading.polls.closed:
                    _log.info("kafka_tail_interrupted", broker=self._node, error=repr(error))
                break
        reading.session_ended(self._node)
        if self._members and not reading.polls.closed:
            reading.again(list(self._members.values()))

    async def _poll(self) -> None:
        # A copy: a partition that is followed again meanwhile is not the one in the request.
        requested = self._members.copy()
        answer = await self._reading.polls.fetch(self._node, self._request())
        if answer.error_code:
            self._start_over()
            return
        self._advance(answer.session_id)
        for wrong in await self._reading.arrived(requested, answer.parts):
            self.leave(wrong.partition)
            self._reading.again([wrong])
        self._note_moved(requested, answer.parts)

    def _request(self) -> FetchRequest:
        """Return the next poll. From here on the broker counts as informed."""
        unsaid, self._unsaid = self._unsaid, set()
        gone, self._gone = self._gone, set()
        self._known |= unsaid
        self._known -= gone
        return FetchRequest(
            positions={each: self._members[each].offset for each in unsaid},
            bytes_max=CHUNK_BYTES_MAX,
            wait_ms=_LONG_POLL_MS,
            session=(self._id, self._epoch),
            forgotten=gone,
        )

    def _note_moved(
        self, asked: Mapping[Partition, Followed], parts: Iterable[FetchedPart]
    ) -> None:
        """Note the moved partitions: only those in the response can have moved."""
        for part in parts:
            followed = asked.get(part.partition)
            if followed is not None and self._members.get(part.partition) is followed:
                self._unsaid.add(part.partition)

    def _advance(self, session_id: int) -> None:
        """Advance the session: the broker accepted the request."""
        if not session_id:
            # The broker has no space for a session: every poll names all partitions.
            self._start_over()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1

    def _start_over(self) -> None:
        self._id, self._epoch = 0, 0
        self._known.clear()
        self._gone.clear()
        self._unsaid = set(self._members)

"""Searches messages in the log by key, by id, or by the content of bodies, within limits."""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from app.domain.catalogue.topic import Topic
from app.domain.errors import TooManySearchesError, ValidationFailedError
from app.domain.message import Message, Partition
from app.filtering.bodies import parsed
from app.filtering.budget import BodyError, Budget, PathError
from app.filtering.texts import text_of
from app.log.interface import MessageLog
from app.schemas.messages import Reading, reading
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

# The maximum number of bytes of the log that one request of a search reads. The request for the
# next page continues where the reading stopped.
BYTES_MAX: Final = 32 * 1024 * 1024
# The maximum time for which one request of a search reads the log.
TIME_MAX: Final = timedelta(seconds=3)
# The maximum size, in bytes, of all message bodies in one response of a search.
FOUND_BYTES_MAX: Final = 4 * 1024 * 1024
# The maximum number of searches that run in this process at the same time.
SEARCHES_MAX: Final = 2

_CHUNK: Final = 512 * 1024
# The number of bytes that a search checks without a pause. In the pause, other requests are
# handled.
_BYTES_PER_TURN: Final = 32 * 1024
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00+00:00")

Matches = Callable[[Message], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """The conditions for the messages that a search finds. A condition that is None is not used.

    Attributes:
        since: the start of the time in which the message was published.
        until: the end of this time, excluded.
        key: the key of the message.
        path: a JSONPath that finds `value` in the body, or anything if `value` is None.
        value: the content of a JSON string, or another JSON value as JSON text.
        message_id: the id of the message.
        text: bytes that the body contains.
    """

    since: datetime
    until: datetime
    key: bytes | None = None
    path: str | None = None
    value: str | None = None
    message_id: bytes | None = None
    text: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """The messages that a search has found, in the order of partitions and offsets.

    `after` is needed to request the next page. It is None if the search has reached its end.
    """

    messages: Sequence[Message]
    after: str | None


class _Position(NamedTuple):
    partition: int
    offset: int


class MessageSearch:
    """Searches the messages of a topic between two times. Each request reads a limited part."""

    def __init__(self, database: Database, log: MessageLog) -> None:
        self._database = database
        self._log = log
        self._running = 0

    async def page(
        self, topic: str, sought: Sought, *, limit: int, after: str | None = None
    ) -> SearchPage:
        """Return at most `limit` messages that match `sought`.

        `after` is from the page before; None for the first page. One call reads at most BYTES_MAX
        bytes, for at most TIME_MAX.

        Raises:
            TopicNotFoundError: The topic does not exist.
            ValidationFailedError: A value is not valid.
            LogUnavailableError: The log cannot be reached.
            TooManySearchesError: Too many searches are running.
        """
        matches = _matcher(sought)
        start = _Position(0, 0) if after is None else _decoded(after)
        async with self._database.transaction() as session:
            found = await TopicRepository(session).get(topic)
        if self._running >= SEARCHES_MAX:
            raise TooManySearchesError("Other searches are running: try again")
        self._running += 1
        try:
            return await self._searched(found, matches, sought, limit=limit, start=start)
        finally:
            self._running -= 1

    async def _searched(
        self, topic: Topic, matches: Matches, sought: Sought, *, limit: int, start: _Position
    ) -> SearchPage:
        partitions = await self._log.partitions(topic.name)
        firsts = await self._log.offsets_at(partitions, _ms(sought.since))
        ends = await self._log.offsets_at(partitions, _ms(sought.until))
        round_ = _Round(self._log, matches, limit, message=reading(topic))
        for partition in partitions:
            if partition.index < start.partition:
                continue
            offset = firsts.get(partition, 0)
            if partition.index == start.partition:
                offset = max(offset, start.offset)
            stopped = await round_.read(partition, offset, ends.get(partition, 0))
            if stopped is not None:
                after = _encoded(_Position(partition.index, stopped))
                return SearchPage(messages=round_.found, after=after)
        return SearchPage(messages=round_.found, after=None)


class _Round:
    """The part of a search that is made for one page, within limits of bytes and time."""

    def __init__(
        self,
        log: MessageLog,
        matches: Matches,
        limit: int,
        *,
        message: Reading,
    ) -> None:
        self._log = log
        self._message = message
        self._matches = matches
        self._limit = limit
        self._until = time.monotonic() + TIME_MAX.total_seconds()
        self._left = BYTES_MAX
        self._found_bytes = 0
        self.found: list[Message] = []

    async def read(self, partition: Partition, offset: int, end: int) -> int | None:
        """Search the messages of the partition from `offset` to before the offset `end`.

        Return the offset at which a limit stopped the search; None if there was no stop.
        """
        while offset < end:
            if self._left <= 0 or time.monotonic() >= self._until:
                return offset
            chunk = await self._log.fetch(partition, offset, bytes_max=_CHUNK)
            if chunk.next_offset <= offset:
                return None  # return None: the partition is searched to its end
            self._left -= max(chunk.size, 1)
            turn = 0
            for record in chunk.records:
                if record.offset >= end:
                    return None
                if self._is_full:
                    return record.offset
                self._look_at(self._message(record, partition))
                turn += len(record.value or b"")
                if turn > _BYTES_PER_TURN:
                    turn = 0
                    await asyncio.sleep(0)
            offset = chunk.next_offset
        return None

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self._limit or self._found_bytes >= FOUND_BYTES_MAX

    def _look_at(self, message: Message) -> None:
        # Skip copies of messages that were sent again to one subscription. The search finds the
        # original messages.
        if message.record_target is None and self._matches(message):
            self.found.append(message)
            self._found_bytes += len(message.body or b"")


def _matcher(sought: Sought) -> Matches:
    since_ms, until_ms = _ms(sought.since), _ms(sought.until)
    conditions: list[Matches] = [lambda message: since_ms <= message.published_ms < until_ms]
    if sought.since >= sought.until:
        raise ValidationFailedError.of("until", "must be after since")
    if sought.key is not None:
        conditions.append(lambda message: message.key == sought.key)
    if sought.message_id is not None:
        conditions.append(lambda message: message.id == sought.message_id)
    if (text := sought.text) is not None:
        conditions.append(lambda message: text in (message.body or b""))
    if sought.path is not None:
        conditions.append(_in_body(sought.path, sought.value))
    elif sought.value is not None:
        raise ValidationFailedError.of("path", "must be given with value")
    if len(conditions) == 1:
        raise ValidationFailedError.of("key", "must be given, or path, text or messageId")
    return lambda message: all(condition(message) for condition in conditions)


def _in_body(text: str, value: str | None) -> Matches:
    from app.filtering.paths import Path  # noqa: PLC0415 - 50 ms of CPU, needed only for paths

    try:
        path = Path(text)
    except PathError as exc:
        raise ValidationFailedError.of("path", str(exc)) from exc

    def matches(message: Message) -> bool:
        budget = Budget()
        try:
            found = path.values(parsed(message.body, budget), budget)
            if value is None:
                return bool(found)
            return any(text_of(each, budget) == value for each in found)
        except (BodyError, PathError):
            return False

    return matches


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _encoded(position: _Position) -> str:
    return (
        base64.urlsafe_b64encode(f"{position.partition}.{position.offset}".encode())
        .decode()
        .rstrip("=")
    )


def _decoded(after: str) -> _Position:
    try:
        text = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode("ascii")
        index, offset = (int(part) for part in text.split(".") if part.isdigit())
        offset.to_bytes(8, signed=True)
    except (ValueError, OverflowError, binascii.Error) as exc:
        raise ValidationFailedError.of("after", "must be from the page before") from exc
    return _Position(index, offset)

"""Deduplication: a message that is published twice with the same id is stored only once."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final, Protocol

import structlog

from app.domain.catalogue.topic import Topic
from app.domain.errors import AngeliaError, StorageUnavailableError
from app.domain.message import NewRecord
from app.services.directory.topics import TopicDirectory
from app.services.publishing.deduplication_ids import published_id, published_ids
from app.services.publishing.duplicates import message_ids, stored_before, with_duplicates
from app.services.publishing.publisher import Publisher
from app.storage.database import Database
from app.storage.runtime.published_ids import DROP_MAX, IdClaim, drop_published_ids

_log = structlog.get_logger(__name__)

FORGET_EVERY: Final = timedelta(seconds=20)


class Claims(Protocol):
    """The type of functions that claim deduplication ids.

    A claim is a context manager. It ends with its block.
    """

    def __call__(
        self, topic: str, ids: Mapping[str, str | None], *, ttl: timedelta
    ) -> AbstractAsyncContextManager[IdClaim]:
        """Claim `ids` of the topic until the block ends. An id is kept for the time `ttl`."""


class IdempotentPublisher:
    """Publishes each message, unless its topic has deduplication and knows the message's id.

    The ids are stored in a transaction, which is committed after the log has stored the messages.
    Another request with the same id waits for this commit. If the process dies before the commit,
    or the log does not respond, the id is not stored. Then a repeated message is stored twice,
    which is better than a lost message. Only topics with deduplication need the database.
    """

    def __init__(self, publisher: Publisher, claims: Claims) -> None:
        self._publisher = publisher
        self._claims = claims

    async def publish(self, topic: Topic, record: NewRecord, own_id: bytes | None) -> bool:
        """Publish the record, unless it is a duplicate. Return whether it is a duplicate.

        `own_id` is the message id that the publisher sent; None if it sent no id.

        Raises:
            StorageUnavailableError: The database cannot be reached.
            ValidationFailedError: The topic recognises duplicates by an expression, which has no
                value for the message.
            DuplicateMessageError: The message is a duplicate, and the topic refuses duplicates.
        """
        rule = topic.deduplication
        message_id = None if rule is None else published_id(topic, record, own_id)
        if rule is None or message_id is None:
            await self._publisher.publish(topic, record)
            return False
        stored = False
        ids = message_ids(rule, (message_id,), (record,))
        try:
            async with self._claims(topic.name, ids, ttl=rule.ttl) as claim:
                if not claim.new:
                    before = await stored_before(rule, claim, ids)
                    return _answer_of(topic, message_id, before)
                await self._publisher.publish(topic, record)
                stored = True
        except StorageUnavailableError as error:
            _require(stored, topic, error)
        return False

    def refused(self, topic: Topic, message_id: bytes, error: Exception) -> None:
        """Do nothing for a message that is refused before it is stored. A subclass records it."""

    async def publish_all(
        self, topic: Topic, records: Sequence[NewRecord], own_ids: Sequence[bytes | None]
    ) -> Sequence[AngeliaError | bool]:
        """Publish the records, except duplicates.

        If several records have the same id, the first record is published, and the others are
        duplicates.

        Returns:
            For each record, an error, or whether the record is a duplicate.
        """
        rule = topic.deduplication
        if rule is None:
            errors = await self._publisher.publish_all(topic, records)
            return [error or False for error in errors]
        ids = await published_ids(topic, records, own_ids)
        names = message_ids(rule, ids, records)
        if not names:
            return (await self._claimed(topic, records, ids, new=frozenset()))[0]
        answers: Sequence[AngeliaError | bool] | None = None
        try:
            async with self._claims(topic.name, names, ttl=rule.ttl) as claim:
                before = await stored_before(rule, claim, names)
                answers, unstored = await self._claimed(topic, records, ids, new=claim.new)
                answers = with_duplicates(topic, answers, ids, stored=before)
                if unstored:
                    await claim.give_up(unstored)
        except StorageUnavailableError as error:
            _require(answers is not None, topic, error)
        return answers or ()

    async def _claimed(
        self,
        topic: Topic,
        records: Sequence[NewRecord],
        ids: Sequence[str | AngeliaError | None],
        *,
        new: frozenset[str],
    ) -> tuple[Sequence[AngeliaError | bool], set[str]]:
        """Publish the records whose id is in `new`, and the records without an id.

        `ids` has the id of each record. It has an error in place of the id if the record must not
        be published.

        Returns:
            For each record, an error, or whether the record is a duplicate; and the new ids whose
            records could not be stored.
        """
        first = {each: index for index, each in reversed(list(enumerate(ids)))}
        wanted = [
            index
            for index, each in enumerate(ids)
            if each is None or (each in new and first[each] == index)
        ]
        errors = await self._publisher.publish_all(topic, [records[index] for index in wanted])
        failed = {
            index: error for index, error in zip(wanted, errors, strict=True) if error is not None
        }
        refused = failed | {
            index: each for index, each in enumerate(ids) if isinstance(each, AngeliaError)
        }
        published = set(wanted)
        answers = [
            refused.get(first[each] if isinstance(each, str) else index, index not in published)
            for index, each in enumerate(ids)
        ]
        return answers, {name for index in failed if isinstance(name := ids[index], str)}


def _answer_of(topic: Topic, message_id: str, before: Mapping[str, str | None]) -> bool:
    """Return True for a duplicate. If the topic refuses duplicates, raise an error instead."""
    (answer,) = with_duplicates(topic, (True,), (message_id,), stored=before)
    if isinstance(answer, AngeliaError):
        raise answer
    return answer


def _require(stored: bool, topic: Topic, error: StorageUnavailableError) -> None:  # noqa: FBT001 - `_require(stored, …)` reads well
    """Raise the database's error, unless the log has already stored the messages.

    If the log has stored the messages, only their ids are lost. A repeated message would then be
    stored again.
    """
    if not stored:
        raise error
    _log.warning("published_ids_lost", topic=topic.name, reason=error.message)


class IdForgetter:
    """Deletes ids of published messages that are too old or too many.

    Every API process does this. Two processes can delete at the same time without harm.
    """

    def __init__(self, database: Database, directory: TopicDirectory) -> None:
        self._database = database
        self._directory = directory

    async def forget(self) -> None:
        """Delete the ids of all topics that are too old or too many now, in several transactions.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        for topic in self._directory.deduplicated():
            while topic.deduplication is not None:
                dropped = await drop_published_ids(self._database, topic.name, topic.deduplication)
                if dropped < DROP_MAX:
                    break

"""The result for a duplicate, which is not stored again.

If the topic refuses duplicates, the result is an error. It names the message that is stored.
"""

from collections.abc import Iterable, Mapping, Sequence

from app.domain.catalogue.topic import Deduplication, OnDuplicate, Topic
from app.domain.errors import AngeliaError, DuplicateMessageError
from app.domain.message import HEADER_ID, NewRecord
from app.storage.runtime.published_ids import IdClaim


def message_ids(
    rule: Deduplication, known_by: Sequence[object], records: Iterable[NewRecord]
) -> dict[str, str | None]:
    """Return, by deduplication id, the message id of the first record with this deduplication id.

    The message id is None if the two ids are the same. `known_by` has the deduplication id of each
    record as a string. For a record without such an id, `known_by` has a value that is not a
    string.
    """
    ids: dict[str, str | None] = {}
    for known, record in zip(known_by, records, strict=True):
        if isinstance(known, str):
            ids.setdefault(known, None if rule.expression is None else _id_of(record))
    return ids


async def stored_before(
    rule: Deduplication, claim: IdClaim, ids: Mapping[str, str | None]
) -> Mapping[str, str | None]:
    """Return, by deduplication id, the message id of the message that is or will be stored.

    The message id is None if it is no longer known. The result is empty if the topic accepts
    duplicates, because publishers then do not get these message ids.

    Raises:
        StorageUnavailableError: The database cannot be reached.
    """
    if rule.on_duplicate is OnDuplicate.ACCEPT:
        return {}
    if rule.expression is None:
        return {each: each for each in ids}
    before = ids.keys() - claim.new
    kept = await claim.stored_as(before) if before else {}
    return {each: kept.get(each) if each in before else own for each, own in ids.items()}


def with_duplicates(
    topic: Topic,
    answers: Sequence[AngeliaError | bool],
    known_by: Sequence[object],
    *,
    stored: Mapping[str, str | None],
) -> Sequence[AngeliaError | bool]:
    """Return `answers` with an error in place of each True, which means a duplicate.

    If the topic accepts duplicates, `stored` is empty. Then `answers` are returned unchanged.
    """
    if not stored:
        return answers
    return [
        DuplicateMessageError(topic.name, stored.get(known))
        if answer is True and isinstance(known, str)
        else answer
        for answer, known in zip(answers, known_by, strict=True)
    ]


def _id_of(record: NewRecord) -> str | None:
    found = next((value for name, value in record.headers if name == HEADER_ID), None)
    return None if found is None else found.decode()

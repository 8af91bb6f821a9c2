"""Retractions of discards that were recorded but not committed, whose messages are sent again.

A discard is recorded before the commit that passes its message. If a worker dies between the two,
the record remains, although the message is sent again and may then be delivered. So a cursor with
discards has a fencing token, its producer epoch. Before the first discard is recorded under an
epoch, a commit contains the epoch. The commit after the last record does not contain it. A worker
that starts from a commit with a producer epoch first retracts the discards of this epoch after the
commit: it appends a retraction to the same stream before it sends any message again.
"""

import bisect
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from app.domain.commit import Progress, Ranges, decode_runs, encode_runs
from app.domain.discards.undelivered import Undelivered, from_record
from app.domain.message import NewRecord, Record

HEADER_RETRACTION: Final = b"v"
# An offset that is larger than the offset of any message.
_BEYOND: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """Retracts the discards that one cursor recorded under one producer epoch and did not commit.

    These are the discards from `offset` on, except those in the ranges `finished`. A retraction
    applies to discards before and after it in the stream, because a worker that was declared dead
    may still run.
    """

    subscription_id: str
    partition: int
    producer_epoch: str
    offset: int
    finished: Ranges = ()

    def covers(self, discard: Undelivered) -> bool:
        """Whether `discard` is retracted."""
        owner = discard.subscription_id, discard.partition, discard.producer_epoch
        if owner != (self.subscription_id, self.partition, self.producer_epoch):
            return False
        return self.covers_offset(discard.offset)

    def covers_offset(self, offset: int) -> bool:
        """Whether a discard at `offset` is retracted, if it has the retraction's producer epoch."""
        if offset < self.offset:
            return False
        at = bisect.bisect_right(self.finished, (offset, _BEYOND)) - 1
        return at < 0 or offset >= self.finished[at][1]


Entry = Undelivered | Retraction


def retraction_of(committed: Progress, partition: int, *, start: int) -> Retraction:
    """Return a retraction of the discards whose messages are sent again.

    These are the messages that the commit `committed` does not count as finished, from `start` on.
    If `start` is later than the commit, the discards before `start` stay.
    """
    offset = max(committed.offset, start)
    finished = tuple((max(a, offset), b) for a, b in committed.finished if b > offset)
    return Retraction(
        subscription_id=committed.subscription_id,
        partition=partition,
        producer_epoch=committed.producer_epoch,
        offset=offset,
        finished=finished,
    )


def retraction_record(retraction: Retraction) -> NewRecord:
    """Return the record for the undelivered stream.

    It has the same key as records of discards, so it is in the same partition, after them. It has
    no headers of a discard, so versions that do not know retractions ignore it.
    """
    described = {
        "subscriptionId": retraction.subscription_id,
        "partition": retraction.partition,
        "life": retraction.producer_epoch,
        "offset": retraction.offset,
        "finished": b64encode(encode_runs(retraction.offset, retraction.finished)).decode("ascii"),
    }
    return NewRecord(
        key=retraction.subscription_id.encode("ascii"),
        value=b"",
        headers=((HEADER_RETRACTION, json.dumps(described).encode("ascii")),),
    )


def entry_of(record: Record) -> Entry | None:
    """Return the entry (a discard or a retraction) in a record of the undelivered stream.

    The result is None for a record without an entry.
    """
    described = record.header(HEADER_RETRACTION)
    return from_record(record) if described is None else _retraction_from(described)


def _retraction_from(described: bytes) -> Retraction | None:
    try:
        parts = json.loads(described)
        finished = b64decode(parts["finished"], validate=True)
        return Retraction(
            subscription_id=parts["subscriptionId"],
            partition=parts["partition"],
            producer_epoch=parts["life"],
            offset=parts["offset"],
            finished=decode_runs(parts["offset"], finished),
        )
    except (ValueError, KeyError, TypeError):
        return None

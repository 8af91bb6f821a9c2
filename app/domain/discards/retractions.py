"""Retractions: they say that some discards do not count, because their messages are sent again.

First a worker records a discard, and later it makes a commit that passes the message. If the worker
dies between the two, the record remains, although the message is sent again, and may then be
delivered. So a cursor with discards has a fencing token, its producer epoch. Before the first
discard is recorded under a producer epoch, a commit contains this epoch. The commit after the last
discard does not contain it any more. If a worker starts from a commit with a producer epoch, it
first retracts the discards of this epoch that are after the commit. For this, it appends a
retraction to the stream of discards, before it sends any message again.
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
    """Retracts discards that one cursor recorded under one producer epoch and did not commit.

    It retracts all discards of this cursor and epoch from `offset` on, except those in the ranges
    `finished`. It also applies to discards that come later in the stream, because a worker that was
    declared dead may still run.
    """

    subscription_id: str
    partition: int
    producer_epoch: str
    offset: int
    finished: Ranges = ()

    def covers(self, discard: Undelivered) -> bool:
        """Return whether this retraction retracts `discard`."""
        owner = discard.subscription_id, discard.partition, discard.producer_epoch
        if owner != (self.subscription_id, self.partition, self.producer_epoch):
            return False
        return self.covers_offset(discard.offset)

    def covers_offset(self, offset: int) -> bool:
        """Return whether a discard at `offset` is retracted.

        The discard must have the same producer epoch as the retraction. This is not checked here.
        """
        if offset < self.offset:
            return False
        at = bisect.bisect_right(self.finished, (offset, _BEYOND)) - 1
        return at < 0 or offset >= self.finished[at][1]


Entry = Undelivered | Retraction


def retraction_of(committed: Progress, partition: int, *, start: int) -> Retraction:
    """Return the retraction for a worker that starts at the offset `start` from a commit.

    The messages from `start` on that the commit `committed` does not count as finished are sent
    again. Their discards are retracted. Discards before `start` still count, also if the commit is
    before `start`.
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
    """Return the record of a retraction for the undelivered stream.

    The record has the same key as the discards of the subscription. So it is in the same partition
    of the stream, after the discards. It has no headers of a discard, so versions that do not know
    retractions ignore it.
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
    """Return the discard or the retraction in a record of the undelivered stream.

    The result is None for a record that has neither.
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

"""Retractions of discards that are recorded and not committed, once their messages are sent again.

A discard is recorded before the commit that passes its message. A worker that dies in between
leaves it behind, and its message is sent again and ends anew, perhaps by a delivery. So a cursor
that discards has a name of its own, its producer epoch: a commit contains it before the first
discard is recorded with it, and the last commit, when nothing more can be recorded, does not.
A worker that starts from a commit with a producer epoch first retracts what was recorded with it
beyond the commit: it appends a retraction to the same stream before it sends any message again.
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
# Beyond each offset.
_BEYOND: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """Takes back discards of a `producer_epoch` in a partition from `offset` on, but `finished`.

    It covers discards before and after it in the stream: a worker thought dead may go on.
    """

    subscription_id: str
    partition: int
    producer_epoch: str
    offset: int
    finished: Ranges = ()

    def covers(self, discard: Undelivered) -> bool:
        """Whether `discard` is retracted."""
        whose = discard.subscription_id, discard.partition, discard.producer_epoch
        if whose != (self.subscription_id, self.partition, self.producer_epoch):
            return False
        return self.covers_offset(discard.offset)

    def covers_offset(self, offset: int) -> bool:
        """Whether a discard of that producer epoch at `offset` is retracted."""
        if offset < self.offset:
            return False
        at = bisect.bisect_right(self.finished, (offset, _BEYOND)) - 1
        return at < 0 or offset >= self.finished[at][1]


Entry = Undelivered | Retraction


def retraction_of(committed: Progress, partition: int, *, start: int) -> Retraction:
    """What is retracted when all that `committed` has not finished is sent again, from `start` on.

    What lies between the commit and a `start` beyond it is not sent again: its discards stay.
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
    """The record of the undelivered stream, behind the discards that it is about: by their key.

    It has no header that versions without retractions look for: they pass over it.
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
    """What a record of the undelivered stream says, or None for one that is not of ours."""
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

"""Discards that are recorded and not committed: void once their messages are sent again.

A discard is recorded before the commit that passes its message. A worker that dies in between
leaves it behind, and its message is sent again and ends anew, perhaps by a delivery. So a cursor
that discards has a name of its own, its life: a commit says it before the first discard is recorded
with it, and the last commit, when nothing more can be recorded, says it no more. Who starts from a
commit with a life voids what that has recorded beyond the commit, in the same stream, before any of
it is sent again.
"""

import bisect
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from app.domain.commit import Progress, Ranges, decode_runs, encode_runs
from app.domain.discards.undelivered import Undelivered, from_record
from app.domain.message import NewRecord, Record

HEADER_VOID: Final = b"v"
# Beyond each offset.
_BEYOND: Final = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Void:
    """The discards of a `life`, of messages in a partition from `offset` on, but not `finished`.

    It is about those that the stream has before it, and after it: who was thought dead may go on.
    """

    subscription_id: str
    partition: int
    life: str
    offset: int
    finished: Ranges = ()

    def covers(self, discard: Undelivered) -> bool:
        """Whether `discard` is void."""
        whose = discard.subscription_id, discard.partition, discard.life
        if whose != (self.subscription_id, self.partition, self.life):
            return False
        return self.covers_offset(discard.offset)

    def covers_offset(self, offset: int) -> bool:
        """Whether a discard of that life at `offset` is void."""
        if offset < self.offset:
            return False
        at = bisect.bisect_right(self.finished, (offset, _BEYOND)) - 1
        return at < 0 or offset >= self.finished[at][1]


Entry = Undelivered | Void


def void_of(committed: Progress, partition: int, *, start: int) -> Void:
    """What is void when all that `committed` has not finished is sent again, from `start` on.

    What lies between the commit and a `start` beyond it is not sent again: its discards stay.
    """
    offset = max(committed.offset, start)
    finished = tuple((max(a, offset), b) for a, b in committed.finished if b > offset)
    return Void(
        subscription_id=committed.subscription_id,
        partition=partition,
        life=committed.life,
        offset=offset,
        finished=finished,
    )


def void_record(void: Void) -> NewRecord:
    """The record of the undelivered stream, behind the discards that it is about: by their key.

    It has no header that versions without voids look for: they pass over it.
    """
    described = {
        "subscriptionId": void.subscription_id,
        "partition": void.partition,
        "life": void.life,
        "offset": void.offset,
        "finished": b64encode(encode_runs(void.offset, void.finished)).decode("ascii"),
    }
    return NewRecord(
        key=void.subscription_id.encode("ascii"),
        value=b"",
        headers=((HEADER_VOID, json.dumps(described).encode("ascii")),),
    )


def entry_of(record: Record) -> Entry | None:
    """What a record of the undelivered stream says, or None for one that is not of ours."""
    described = record.header(HEADER_VOID)
    return from_record(record) if described is None else _void_from(described)


def _void_from(described: bytes) -> Void | None:
    try:
        parts = json.loads(described)
        finished = b64decode(parts["finished"], validate=True)
        return Void(
            subscription_id=parts["subscriptionId"],
            partition=parts["partition"],
            life=parts["life"],
            offset=parts["offset"],
            finished=decode_runs(parts["offset"], finished),
        )
    except (ValueError, KeyError, TypeError):
        return None

"""Numbered batches: if a broker gets a batch twice, it stores the batch once (KIP-98; no I/O).

Each partition has a run of sequence numbers under the producer's id. A batch keeps its number until
it is known whether the batch is stored. If the batch is given up before that, no other records may
get its number: a broker would treat them as the same batch again. So the next batch begins another
run of numbers, with a higher epoch. The broker then also refuses late batches of the earlier run.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from app.domain.errors import (
    AngeliaError,
    LogUnavailableError,
    MessageRefusedError,
    MessageTimeRefusedError,
    MessageTooLargeError,
)
from app.log.kafka.client import STALE_LEADER_CODES, reason
from app.log.kafka.protocol.encoding import BatchStamp

EPOCH_MAX: Final = 2**15 - 1
SEQUENCE_MAX: Final = 2**31 - 1
# How often brokers may refuse the sequence numbers of a partition's batches, if no batch with a
# number is stored in between. After that, the partition's batches have no numbers for a while.
REFUSALS_MAX: Final = 3
# How often a batch is sent without getting a response. After that the batch fails, because it may
# be the reason why connections break.
SENDS_MAX: Final = 3

# The error code that is assumed for a partition that is missing in the response.
UNANSWERED: Final = -99
_NOT_ENOUGH_REPLICAS: Final = 19
_DUPLICATE: Final = 46
INVALID_TIMESTAMP: Final = 32
INVALID_RECORD: Final = 87
# A record is invalid: the error codes, and what users are told.
REFUSED_RECORDS: Final = {
    INVALID_TIMESTAMP: (
        "Kafka refused the message (INVALID_TIMESTAMP). Its time is older or newer than the topic"
        " allows. Check the clocks of Angelia and Kafka, and the topic's settings"
        " message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
    INVALID_RECORD: (
        "Kafka refused the message (INVALID_RECORD). A compacted topic takes no message"
        " without a Partition-Key"
    ),
}
# The error codes after which parts of the batch may be stored, in smaller batches.
_SPLIT_CODES: Final = frozenset({10, 18, *REFUSED_RECORDS})
_RETRY_CODES: Final = STALE_LEADER_CODES | {_NOT_ENOUGH_REPLICAS}
# The error codes after which the batch may be stored. Codes 7 and 20: the leader has stored the
# batch, but not enough replicas did so in time. The codes for a stale leader: a broker sends them
# if it never was the leader, but also if it was replaced after it stored the batch.
_PERHAPS_STORED_CODES: Final = STALE_LEADER_CODES | {UNANSWERED, 7, 20}
# The error codes for refused numbers: out of order, duplicate, old epoch, unknown producer, fenced.
_REFUSED_NUMBER_CODES: Final = frozenset({45, _DUPLICATE, 47, 59, 90})


class ProducerId(NamedTuple):
    """The id that brokers gave this producer.

    `epoch` is the first epoch that the producer may use.
    """

    id: int
    epoch: int


AskForId = Callable[[], Awaitable[ProducerId]]
"""Asks the brokers for a new id. Raises NoIdsError, IdRefusedError or LogUnavailableError."""


class IdRefusedError(Exception):
    """The brokers give this user no producer id until the user gets a permission."""


class NoIdsError(Exception):
    """The brokers are too old to give producer ids."""


@dataclass(slots=True)
class SequenceRun:
    """The sequence numbers of one partition's batches, in order."""

    producer_id: int
    epoch: int
    next: int = 0

    @property
    def stamp(self) -> BatchStamp:
        """The producer id, epoch and sequence number of the next batch."""
        return BatchStamp(self.producer_id, self.epoch, self.next)

    def stored(self, records: int) -> None:
        """Move to the number after a batch that is stored now. The batch has `records` records."""
        self.next = later(self.stamp, records).sequence


def later(stamp: BatchStamp, records: int) -> BatchStamp:
    """Return the stamp for the record that is `records` records after the first one of `stamp`."""
    return stamp._replace(sequence=(stamp.sequence + records) % (SEQUENCE_MAX + 1))


class SequenceRuns:
    """Starts runs of sequence numbers, with which producers number their batches.

    Each run has an epoch of its own, so two runs have no number in common.
    """

    def __init__(self) -> None:
        self._given: ProducerId | None = None

    @property
    def has_id(self) -> bool:
        """Whether there is a producer id, so that runs can start."""
        return self._given is not None

    def give(self, given: ProducerId) -> None:
        """Set the producer id for the runs that start from now on."""
        self._given = given

    def begin(self) -> SequenceRun | None:
        """Return a new run; None if there is no producer id."""
        if self._given is None:
            return None
        producer_id, epoch = self._given
        # Use no epoch above EPOCH_MAX - 2, because Kafka reserves the last epoch for itself.
        self._given = ProducerId(producer_id, epoch + 1) if epoch + 2 < EPOCH_MAX else None
        return SequenceRun(producer_id, epoch)

    def drop(self, producer_id: int) -> None:
        """Start no more runs under this producer id, because a broker refuses it."""
        if self._given is not None and self._given.id == producer_id:
            self._given = None


class BatchOutcome(Enum):
    """What to do with a batch after the broker's response to it."""

    STORED = auto()
    # The batch may be stored: send the same batch again.
    REPEAT = auto()
    # The batch is not stored: put its records back into the queue.
    REQUEUE = auto()
    # The batch is too large, or a record in it is refused: send its records in smaller batches.
    SPLIT = auto()
    # A broker refused the number of the batch, so the batch is not stored: put its records back
    # into the queue, for another run of sequence numbers.
    RENUMBER = auto()
    FAILED = auto()


def outcome_of(code: int, *, numbered: bool, repeated: bool) -> BatchOutcome:
    """Return what to do with a batch after an error code of the broker, or after UNANSWERED.

    `repeated` means that the batch was sent before, and may have been stored then.
    """
    if code == 0 or (code == _DUPLICATE and repeated):
        return BatchOutcome.STORED
    if numbered:
        return _of_numbered(code, repeated=repeated)
    if code in _RETRY_CODES:
        return BatchOutcome.REQUEUE
    return BatchOutcome.SPLIT if code in _SPLIT_CODES else BatchOutcome.FAILED


def _of_numbered(code: int, *, repeated: bool) -> BatchOutcome:
    if code in _PERHAPS_STORED_CODES or (repeated and code == _NOT_ENOUGH_REPLICAS):
        return BatchOutcome.REPEAT
    if repeated and code not in _SPLIT_CODES:
        return BatchOutcome.FAILED
    if code in _REFUSED_NUMBER_CODES:
        return BatchOutcome.RENUMBER
    return outcome_of(code, numbered=False, repeated=False)


def refusal(code: int) -> LogUnavailableError:
    """Return the error for messages that may be stored, or that another try may store."""
    if code == UNANSWERED:
        return LogUnavailableError("Kafka left a partition unanswered")
    return LogUnavailableError(f"Kafka refused the messages: {reason(code)}")


def refusal_of_one(code: int) -> AngeliaError:
    """Return the error for a message that is too large or invalid."""
    if code == INVALID_TIMESTAMP:
        return MessageTimeRefusedError(REFUSED_RECORDS[code])
    if code in REFUSED_RECORDS:
        return MessageRefusedError(REFUSED_RECORDS[code])
    return MessageTooLargeError("the message with its headers is larger than its topic allows")

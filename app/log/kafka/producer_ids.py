"""The producer id of this process. It is requested from Kafka when needed (InitProducerId)."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from kafka import errors
from kafka.protocol.producer import InitProducerIdRequest

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.kafka.append_queues import AppendBatch, Line
from app.log.kafka.bridge import IoThread
from app.log.kafka.client import FAILED_TRY, Client, Deadline, reason
from app.log.kafka.sequences import (
    REFUSALS_MAX,
    AskForId,
    IdRefusedError,
    NoIdsError,
    ProducerId,
    SequenceRuns,
)

# How long batches wait for the first producer id, in seconds. Publishers wait longer than this for
# a response.
ASK_TIMEOUT_S: Final = 1.0
ASK_AGAIN_AFTER_S: Final = 10.0
# How long to wait after the brokers refused an id, in seconds, because somebody has to give this
# user a permission first. A partition whose sequence numbers were refused too often appends without
# numbers for the same time.
REFUSED_PAUSE_S: Final = 180.0
# The transaction timeout that a request for a producer id must have. It has no effect, because this
# client uses no transactions.
_TRANSACTION_TIMEOUT_MS: Final = 60_000
_VERSION_MAX: Final = 4
# The error codes for a missing permission: on a topic, on the cluster, or on a transactional id.
_REFUSED_CODES: Final = frozenset({29, 31, 53})
_UNSUPPORTED_VERSION: Final = 35

_log = structlog.get_logger(__name__)


class ProducerIds:
    """Requests a producer id from the brokers, and numbers batches under this id.

    While brokers give no id, batches are sent without numbers.
    """

    def __init__(
        self, ask: AskForId | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create a `ProducerIds`. Without `ask`, batches never have numbers."""
        self._ask = ask
        self._clock = clock
        self._runs = SequenceRuns()
        self._asking = False
        self._has_failed = False
        self._ask_at = 0.0

    def want(self) -> bool:
        """Return whether the caller must call `ask`, because there is no producer id.

        If the result is True, the id counts as requested from then on.
        """
        if self._runs.has_id or self._ask is None or self._asking:
            return False
        self._asking = self._clock() >= self._ask_at
        return self._asking

    @property
    def is_awaited(self) -> bool:
        """Whether batches have to wait for the id."""
        return self._asking and not self._has_failed

    def number(self, batches: Iterable[AppendBatch]) -> None:
        """Give each batch a sequence number, unless it has one or there is no id."""
        for batch in batches:
            line = batch.line
            if batch.numbered or self._goes_without(line):
                continue
            line.run = line.run or self._runs.begin()
            if line.run is not None:
                batch.stamp = line.run.stamp

    def refused(self, batch: AppendBatch, why: str) -> None:
        """Put a batch's records back into the queue, because a broker refused its sequence number.

        The records will get numbers under another producer id.
        """
        line = batch.line
        line.refusals += 1
        line.numbered_again_at = self._clock() + REFUSED_PAUSE_S
        line.run = None
        line.put_back(batch.items)
        self._runs.drop(batch.stamp.producer_id)
        where = Partition(batch.topic.name, batch.partition)
        _log.warning("kafka_sequence_refused", partition=where, error=why)

    async def ask(self) -> None:
        """Request a producer id. After a failure, `want` allows another request after a pause.

        If the brokers are too old to give producer ids, no other request follows.
        """
        if self._ask is None:
            return
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                self._runs.give(await self._ask())
            self._has_failed = False
        except NoIdsError as no_ids:
            self._ask = None
            _log.warning("kafka_producer_id_refused", problem=str(no_ids))
        except IdRefusedError as refused:
            _log.warning("kafka_producer_id_refused", problem=str(refused))
            self._failed(REFUSED_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - appends continue after any error
            if not self._has_failed:
                _log.info("kafka_producer_id_unknown", error=repr(error))
            self._failed(ASK_AGAIN_AFTER_S)
        finally:
            self._asking = False

    def _goes_without(self, line: Line) -> bool:
        return line.refusals >= REFUSALS_MAX and self._clock() < line.numbered_again_at

    def _failed(self, pause_s: float) -> None:
        # From now on, batches do not wait for a producer id until a request for an id has
        # succeeded.
        self._has_failed = True
        self._ask_at = self._clock() + pause_s


async def new_producer_id(io: IoThread, client: Client) -> ProducerId:
    """Return a new id, within ASK_TIMEOUT_S; called on the I/O thread.

    Raises:
        NoIdsError: The brokers are too old to give producer ids.
        IdRefusedError: The brokers give this user no producer id.
        LogUnavailableError: The brokers gave no producer id in time.
    """
    deadline = Deadline(io, ASK_TIMEOUT_S)
    while True:
        cause: object
        try:
            found = await client.send_any(_request())
        except (errors.IncompatibleBrokerVersion, errors.UnsupportedVersionError) as too_old:
            raise NoIdsError(f"the brokers give no producer ids: {too_old}") from too_old
        except FAILED_TRY as error:
            if client.closed:
                raise LogUnavailableError("the log is closed") from error
            cause = error
        else:
            if found.error_code == 0:
                return ProducerId(found.producer_id, found.producer_epoch)
            cause = reason(found.error_code)
            if found.error_code in _REFUSED_CODES:
                raise IdRefusedError(f"the brokers give this user no producer id: {cause}")
            if found.error_code == _UNSUPPORTED_VERSION:
                raise NoIdsError(f"the brokers give no producer ids: {cause}")
        await deadline.pause(cause)


def _request() -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        max_version=_VERSION_MAX,
    )

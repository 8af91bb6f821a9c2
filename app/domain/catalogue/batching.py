"""Delivery in batches: several messages in one request."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

BATCH_SIZE_MAX: Final = 10_000
BATCH_VOLUME_MAX: Final = 8 * 1024 * 1024
# As much as Hermes takes: what means "when it is full" there.
BATCH_TIME_MAX: Final = timedelta(milliseconds=(1 << 31) - 1)


class DeliveryType(StrEnum):
    """SERIAL: each message in a request of its own. BATCH: several in one."""

    SERIAL = "SERIAL"
    BATCH = "BATCH"


class BatchFormat(StrEnum):
    """What the body of a batch is.

    WRAPPED: a JSON array of objects with `metadata` and `message`, as Hermes sends it. PLAIN: a
    JSON array of the messages. NDJSON: a message a line.
    """

    WRAPPED = "WRAPPED"
    PLAIN = "PLAIN"
    NDJSON = "NDJSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """When a batch is sent: once it has `size` messages, or its body `volume` bytes, or in time.

    `time` counts from its first message. `volume` is a bound for the whole body. With `events` that
    is a batch of CloudEvents, whatever `format` says.
    """

    size: int
    volume: int
    time: timedelta
    format: BatchFormat
    events: bool = False

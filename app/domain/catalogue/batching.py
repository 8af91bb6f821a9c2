"""Delivery in batches: several messages in one request."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

BATCH_SIZE_MAX: Final = 10_000
BATCH_VOLUME_MAX: Final = 8 * 1024 * 1024
# Hermes' maximum for `batchTime`. In Hermes this value means that a batch is sent only when it is
# full.
BATCH_TIME_MAX: Final = timedelta(milliseconds=(1 << 31) - 1)


class DeliveryType(StrEnum):
    """How many messages a request has. SERIAL: one. BATCH: several."""

    SERIAL = "SERIAL"
    BATCH = "BATCH"


class BatchFormat(StrEnum):
    """The format of a batch body.

    WRAPPED: a JSON array of objects with `metadata` and `message`, as Hermes sends it. PLAIN: a
    JSON array of the messages. NDJSON: one message per line.
    """

    WRAPPED = "WRAPPED"
    PLAIN = "PLAIN"
    NDJSON = "NDJSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """When a batch is complete, and how its body is written.

    Attributes:
        size: The maximum number of messages.
        volume: The maximum size of the body in bytes.
        time: The longest time that the first message waits for others.
        format: The format of the body.
        events: Whether the body is a batch of CloudEvents, whatever `format` is.
    """

    size: int
    volume: int
    time: timedelta
    format: BatchFormat
    events: bool = False

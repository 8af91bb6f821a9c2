"""The settings of a subscription that gets batches: several messages in one request."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

BATCH_SIZE_MAX: Final = 10_000
BATCH_VOLUME_MAX: Final = 8 * 1024 * 1024
# The maximum of `batchTime` in Hermes. There, this value means that only full batches are sent.
BATCH_TIME_MAX: Final = timedelta(milliseconds=(1 << 31) - 1)


class DeliveryType(StrEnum):
    """How many messages a request contains. SERIAL: one. BATCH: one or several."""

    SERIAL = "SERIAL"
    BATCH = "BATCH"


class BatchFormat(StrEnum):
    """The format of the body of a batch.

    WRAPPED: a JSON array of objects, each with `metadata` and `message`, as in Hermes. PLAIN: a
    JSON array of the messages. NDJSON: one message per line.
    """

    WRAPPED = "WRAPPED"
    PLAIN = "PLAIN"
    NDJSON = "NDJSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """When a batch is sent, and how its body is written.

    Attributes:
        size: The maximum number of messages in a batch.
        volume: The maximum size of the body in bytes.
        time: The longest time that the first message of a batch waits for further messages.
        format: The format of the body.
        events: Whether the body is a batch of CloudEvents. Then `format` has no effect.
    """

    size: int
    volume: int
    time: timedelta
    format: BatchFormat
    events: bool = False

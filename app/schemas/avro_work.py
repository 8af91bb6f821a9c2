"""The limits of work with Avro: writing a JSON message as Avro, and reading an Avro message.

Work is counted in steps of about 350 ns. Each type has a cost (avro_scalars.py, avro_prices.py),
and the length of the result has a cost. A message may take about 30 ms, and 400 ns for each of its
bytes. Without a limit, an encoder could try nested unions forever. Defaults, field names, and
values without bytes could make a large message from a small one.

Reading has further limits: the memory for the values while the message is read, and the size of the
JSON, which stays in memory. A list of a million small records is two megabytes of Avro, and would
take 400 megabytes of memory.
"""

from typing import Final

# The time of one step in nanoseconds.
STEP_NS: Final = 350
# The steps of work that a message of any size may take.
STEPS_MAX: Final = 80_000
# The additional steps for each byte of a message.
STEPS_PER_BYTE: Final = 1.1
# How many bytes of memory a message may take while it is read, for its values and its JSON
# together: a fixed number, and a number for each byte of the message.
ROOM_MAX: Final = 48 << 20
ROOM_PER_BYTE: Final = 64
# How many bytes the JSON of a message may have: a fixed number, and a number for each byte of the
# message.
JSON_MAX: Final = 128 << 10
JSON_PER_BYTE: Final = 48


class AvroExhaustedError(Exception):
    """The message takes more work than allowed."""


class AvroTooLargeError(Exception):
    """The result for the message would be larger than allowed."""


def steps_allowed(size: int) -> float:
    """Return the steps that a message of `size` bytes may take."""
    return STEPS_MAX + STEPS_PER_BYTE * size


def room_allowed(size: int) -> int:
    """Return how many bytes of memory may be used to read a message of `size` bytes."""
    return ROOM_MAX + ROOM_PER_BYTE * size


def json_allowed(size: int) -> int:
    """Return how many bytes the JSON of an Avro message of `size` bytes may have."""
    return JSON_MAX + JSON_PER_BYTE * size

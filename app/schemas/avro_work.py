"""The bounds of work with Avro: to write a message of JSON as Avro, and to read one as JSON.

Work is counted in steps of about 350 ns. Each type has prices (avro_encoding.py, avro_prices.py),
and what is produced counts by its length. A message may take about 30 ms, and 400 ns for each of
its bytes: unions in unions could be tried forever, and defaults, names of fields, and values that
take no room make a large message of a small one.

What is read has bounds of its own: the bytes of memory that its values take while it is read, and
those of the JSON that is made of it, and kept. A list of a million small records is two megabytes
of Avro, and would be 400 of memory.
"""

from typing import Final

# The time of one.
STEP_NS: Final = 350
# Steps that a message may take: so many, and so many for each byte that was given.
STEPS_MAX: Final = 80_000
STEPS_PER_BYTE: Final = 1.1
# Bytes that the values of a message and its JSON may take together while it is read, and its JSON.
ROOM_MAX: Final = 48 << 20
ROOM_PER_BYTE: Final = 64
JSON_MAX: Final = 128 << 10
JSON_PER_BYTE: Final = 48


class AvroExhaustedError(Exception):
    """The message takes more work than it may."""


class AvroTooLargeError(Exception):
    """What would be made of the message is larger than it may be."""


def steps_allowed(size: int) -> float:
    """The steps that a message of `size` bytes may take."""
    return STEPS_MAX + STEPS_PER_BYTE * size


def room_allowed(size: int) -> int:
    """The bytes that may be made of a message of `size` bytes."""
    return ROOM_MAX + ROOM_PER_BYTE * size


def json_allowed(size: int) -> int:
    """The bytes of JSON that a message of `size` bytes may become."""
    return JSON_MAX + JSON_PER_BYTE * size

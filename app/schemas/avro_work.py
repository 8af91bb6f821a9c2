"""The one bound of work with Avro: to write a message of JSON as Avro, and to read one as JSON.

Work is counted in steps of about 350 ns. Each type has prices (avro_writing.py, avro_prices.py),
and what is produced counts by its length. A message may take about 30 ms, and 400 ns for each of
its bytes: unions in unions could be tried forever, and defaults, names of fields, and values that
take no room make a large message of a small one.
"""

from typing import Final

# The time of one.
STEP_NS: Final = 350
# Steps that a message may take: so many, and so many for each byte that was given.
STEPS_MAX: Final = 80_000
STEPS_PER_BYTE: Final = 1.1


class AvroExhaustedError(Exception):
    """The message takes more work than it may."""


def steps_allowed(size: int) -> float:
    """The steps that a message of `size` bytes may take."""
    return STEPS_MAX + STEPS_PER_BYTE * size

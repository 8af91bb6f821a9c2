"""Examples of messages on which the proposed and the current filters of a simulation differ.

There are two kinds of examples: only the proposed filters match, or only the current filters match.
Each task keeps the messages with the lowest offsets, at most SAMPLES_MAX of each kind. So only few
rows have to be sorted.
"""

from bisect import insort
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own documents use this name

from app.domain.insight.simulation import ID_SHOWN_MAX
from app.domain.message import Message
from app.domain.replay.retransmission import SAMPLES_MAX

# A row with the fields of `spark.schemas.DIFFERING`, in their order.
Row = tuple[int, int, bool, int, int, str]


class DifferingSamples:
    """The examples that one task has found so far, at most SAMPLES_MAX of each kind."""

    def __init__(self) -> None:
        self._added: list[Row] = []
        self._dropped: list[Row] = []

    def see(self, message: Message, *, is_added: bool) -> None:
        """Add a message on which the filters differ.

        If `is_added` is true, only the proposed filters match the message. Otherwise only the
        current filters match it.
        """
        kept = self._added if is_added else self._dropped
        position = (message.offset, message.partition.index)
        if len(kept) == SAMPLES_MAX and kept[-1][:2] <= position:
            return
        insort(kept, _row(message, is_added=is_added))
        del kept[SAMPLES_MAX:]

    def rows(self) -> Sequence[Row]:
        """Return the kept examples as rows."""
        return [*self._added, *self._dropped]


def first_differing(arrivals: DataFrame, *, is_added: bool) -> DataFrame:
    """Return the examples of one kind that have the lowest offsets.

    The input has the columns `ARRIVALS`, and the result has the columns `DIFFERING`.
    """
    each = arrivals.select(F.inline("differing")).where(F.col("is_added") == F.lit(is_added))
    return each.orderBy("offset", "partition").limit(SAMPLES_MAX)


def _row(message: Message, *, is_added: bool) -> Row:
    # Replace invalid characters in the message id, and cut a long id, because a foreign producer
    # may have made it. Replace zero characters too, because PostgreSQL cannot store them.
    named = message.id.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return (
        message.offset,
        message.partition.index,
        is_added,
        message.published_ms,
        len(message.body or b""),
        named[:ID_SHOWN_MAX],
    )

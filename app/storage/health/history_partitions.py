"""The partitions of the table `metrics_history`.

A partition has the minutes of a day, or the hours of a week (UTC). It is created a day before it is
needed, and dropped when all its minutes or hours are too old.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.metrics.steps import KEPT, Step
from app.storage.partitions import add_partition, drop_partition, hold_partitions, partition_sizes

# The steps (minute and hour) by which metrics are stored, each with its length in minutes. Metrics
# by day are not stored, but summed from hours.
STEP_MINUTES: Final = {Step.MINUTE: 1, Step.HOUR: 60}

_PARENT: Final = "metrics_history"
_LOCK: Final = "angelia.metrics_history"
_LENGTHS: Final = {Step.MINUTE: timedelta(days=1), Step.HOUR: timedelta(weeks=1)}
# The Monday from which weeks are counted.
_FIRST: Final = datetime(1970, 1, 5, tzinfo=UTC)


class HistoryPartition(NamedTuple):
    """A partition from `start` on: a day of metrics by minute, or a week of metrics by hour."""

    step: Step
    start: datetime

    @property
    def name(self) -> str:
        """The name of the partition's table."""
        return f"{_PARENT}_{self.step.value}_{self.start:%Y%m%d}"

    @property
    def values(self) -> str:
        """The range of the partition, in SQL."""
        step, end = STEP_MINUTES[self.step], self.start + _LENGTHS[self.step]
        since, until = (f"{each:%Y-%m-%d} 00:00+00" for each in (self.start, end))
        return f"FROM ({step}, '{since}') TO ({step}, '{until}')"


def partition_of(step: Step, moment: datetime) -> HistoryPartition:
    """Return the partition that has the metrics of this moment, by minute or by hour (`step`)."""
    return HistoryPartition(step, moment - (moment - _FIRST) % _LENGTHS[step])


def oldest_kept(step: Step, now: datetime) -> datetime:
    """Return the start of the oldest partition that must be kept, by minute or by hour (`step`)."""
    return partition_of(step, now - KEPT[step]).start


class HistoryPartitions:
    """Creates and drops the partitions, in the session's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def make(self, now: datetime) -> None:
        """Create the missing partitions for rows of today and of tomorrow."""
        wanted = {
            partition_of(step, moment)
            for step in STEP_MINUTES
            for moment in (now, now + timedelta(days=1))
        }
        if wanted <= {*await self.all()}:
            return
        await hold_partitions(self._session, _LOCK)
        for each in sorted(wanted - {*await self.all()}):
            await add_partition(self._session, _PARENT, each.name, values=each.values)

    async def drop_old(self, now: datetime) -> None:
        """Drop the partitions whose metrics are all too old."""
        old = [each for each in await self.all() if each.start < oldest_kept(each.step, now)]
        if old:
            await hold_partitions(self._session, _LOCK)
        for each in {*old} & {*await self.all()}:
            await drop_partition(self._session, each.name)

    async def all(self) -> list[HistoryPartition]:
        """Return the existing partitions."""
        return [_named(name) for name in await partition_sizes(self._session, _PARENT)]

    async def size(self) -> int:
        """Return the size of all partitions in bytes, including their indexes."""
        return sum((await partition_sizes(self._session, _PARENT)).values())


def _named(name: str) -> HistoryPartition:
    _, step, day = name.rsplit("_", 2)
    return HistoryPartition(Step(step), datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC))

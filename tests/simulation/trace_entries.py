"""The trace entries at the end of a run, as events of the history."""

from collections.abc import Iterator

from app.domain.streams import TRACES
from app.tracing.packs import Pack, TraceRow, unpacked
from tests.simulation.history import Traced, copy_name
from tests.simulation.world import World


def traced(world: World) -> Iterator[Traced]:
    """Yield each trace entry once, in the order in which the entries were stored.

    A repeated append stores equal entries twice. They count once, as in a look-up.
    """
    seen: set[tuple[object, ...]] = set()
    for pack in [*world.plane.traces, *_not_stored(world)]:
        for values in pack.rows:
            source = pack.sources[values[0]]
            entry = pack.worker, source.subscription_id, *values[1:]
            if entry not in seen:
                seen.add(entry)
                yield _event(world, pack, TraceRow(*values))


def _not_stored(world: World) -> Iterator[Pack]:
    """Yield the packs of the stream that no worker could store before all workers stopped."""
    for partition in world.log.partitions_of(TRACES):
        stored = world.plane.stream.get(partition, 0)
        for record in world.log.stored[partition].records:
            if record.offset >= stored and (pack := unpacked(record)) is not None:
                yield pack


def _event(world: World, pack: Pack, row: TraceRow) -> Traced:
    return Traced(
        at=world.loop.time(),
        worker=pack.worker,
        incarnation=pack.sources[row.source].subscription_id,
        message=copy_name(row.message_id, row.retransmission),
        status=row.status,
        partition=row.partition,
        offset=row.offset,
        attempt=row.attempt,
        status_code=row.status_code,
        reason=row.reason,
    )

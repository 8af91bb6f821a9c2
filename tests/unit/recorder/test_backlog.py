"""What waits in a worker is told before it can be lost with it."""

import pytest

from app.domain.errors import StorageUnavailableError
from workers.recorder.backlog import Backlog


class Traces:
    waiting = 0
    behind = False


class Store:
    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.down = False

    async def waiting(self, worker: str, entries: int) -> None:
        if self.down:
            raise StorageUnavailableError("down")
        self.told.append((worker, entries))


async def test_what_waits_is_told_only_while_the_stream_takes_nothing() -> None:
    traces, store = Traces(), Store()
    backlog = Backlog(traces, store, worker="w")
    traces.waiting = 500
    await backlog.report()
    assert store.told == []
    traces.behind = True
    for waiting in (500, 500, 900):
        traces.waiting = waiting
        await backlog.report()
    traces.behind = False
    await backlog.report()
    assert store.told == [("w", 500), ("w", 900), ("w", 0)]


async def test_what_waits_at_the_end_is_lost_whatever_the_stream_does() -> None:
    traces, store = Traces(), Store()
    traces.waiting = 7
    await Backlog(traces, store, worker="w").report_last()
    assert store.told == [("w", 7)]


async def test_what_could_not_be_told_is_told_the_next_time() -> None:
    traces, store = Traces(), Store()
    backlog = Backlog(traces, store, worker="w")
    traces.waiting, traces.behind, store.down = 3, True, True
    with pytest.raises(StorageUnavailableError):
        await backlog.report()
    store.down = False
    await backlog.report()
    assert store.told == [("w", 3)]

"""Trace entries that the recorder may not store are counted by why."""

from datetime import timedelta

from app.metrics import catalogue
from app.metrics.readings import Readings
from app.metrics.shared import read_stored_traces
from app.storage.database import Database
from tests.integration.storage.test_traces import STREAM, a_pack, a_row, micros, now, stored
from workers.recorder.traces import DatabaseTraces, missed


async def test_each_entry_that_is_not_stored_counts_once_under_its_cause(
    database: Database,
) -> None:
    old = a_row(at=micros(now() - timedelta(days=9)))
    unreadable = a_pack(a_row(), a_row(), a_row())._replace(sources={})
    packs = [a_pack(a_row(), old), missed(2), unreadable, a_pack(a_row(), lost=5)]
    store = await stored(database, *packs)
    assert store.stats.lost == {"no-day": 1, "dropped": 1_000, "unreadable": 3}
    # What is there already is not recorded again.
    await store.record(packs, STREAM, len(packs))
    assert store.stats.lost.total() == 1_004
    assert store.stats.room is not None
    assert 0 < store.stats.room < 1


async def test_a_worker_shows_what_is_not_stored_and_how_much_room_is_used(
    database: Database,
) -> None:
    await stored(database, a_pack(a_row()))
    store = DatabaseTraces(database, kept=timedelta(days=7), bytes_max=1)
    await store.keep()
    await store.record([a_pack(a_row(), a_row())], STREAM, 9)
    readings = Readings()
    read_stored_traces(readings, store.stats)
    read = dict(readings)
    assert read[catalogue.TRACES_NOT_STORED] == [(("no-room",), 2)]
    [(labels, room)] = read[catalogue.TRACES_ROOM]
    assert (labels, room == store.stats.room) == ((), True)
    assert isinstance(room, float)
    assert room > 1

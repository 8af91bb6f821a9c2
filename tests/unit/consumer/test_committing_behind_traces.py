"""Commits of what is traced wait for its traces, within a bound; others wait for nothing."""

import asyncio
from datetime import timedelta

from tests.unit.consumer.test_committer import LONG, Scene, move
from workers.consumer.commit.cursor import Cursor


def traced(scene: Scene, group: str = "traced") -> Cursor:
    cursor = scene.cursor(group)
    cursor.traced = True
    return cursor


async def test_what_is_traced_is_committed_when_its_traces_are_said_and_not_before() -> None:
    scene = Scene()
    cursor = traced(scene)
    move(cursor, 3)
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.traces.until_asked()
    move(cursor, 4)
    assert scene.log.rounds == []
    scene.traces.said.set()
    await flushing
    # What was finished while it waited may have traces that were not waited for.
    assert scene.log.rounds == [{("traced", 0): 3}]
    await scene.committer.flush()
    assert scene.log.rounds[1:] == [{("traced", 0): 4}]


async def test_what_is_not_traced_waits_for_no_traces() -> None:
    scene = Scene()
    slow, quick = traced(scene), scene.cursor("quick")
    running = asyncio.ensure_future(scene.committer.run())
    move(slow, 1)
    await scene.traces.until_asked()
    move(quick, 2)
    await until_committed(scene, quick, 2)
    assert slow.committed.offset == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def until_committed(scene: Scene, cursor: Cursor, offset: int) -> None:
    async with asyncio.timeout(LONG.total_seconds()):
        while cursor.committed.offset < offset:
            scene.log.begun.clear()
            await scene.log.begun.wait()
            await asyncio.sleep(0)


async def test_traces_hold_a_commit_no_longer_than_the_bound() -> None:
    scene = Scene(timedelta(milliseconds=1))
    cursor = traced(scene)
    move(cursor, 1)
    await scene.committer.flush()
    assert cursor.committed.offset == 1


async def test_what_went_to_another_worker_while_it_waited_is_not_committed() -> None:
    scene = Scene()
    gone, kept = traced(scene, "gone"), traced(scene, "kept")
    move(gone, 1)
    move(kept, 1)
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.traces.until_asked()
    gone.abandoned = True
    scene.traces.said.set()
    await flushing
    assert scene.log.rounds == [{("kept", 0): 1}]


async def test_what_begins_to_be_traced_is_not_committed_by_two_at_once() -> None:
    scene = Scene()
    cursor = scene.cursor()
    scene.traces.said.set()
    move(cursor, 1)
    scene.log.go_on.clear()
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.log.begun.wait()
    cursor.traced = True
    move(cursor, 2)
    finishing = asyncio.ensure_future(scene.committer.finish([("g", cursor)], LONG))
    await asyncio.sleep(0)
    scene.log.go_on.set()
    await flushing
    assert await finishing
    assert scene.log.rounds == [{("g", 0): 1}, {("g", 0): 2}]


async def test_what_began_to_be_traced_when_it_had_moved_waits_for_its_traces() -> None:
    scene = Scene()
    cursor = scene.cursor()
    move(cursor, 1)
    cursor.traced = True
    flushing = asyncio.ensure_future(scene.committer.flush())
    await scene.traces.until_asked()
    assert scene.log.rounds == []
    scene.traces.said.set()
    await flushing
    assert cursor.committed.offset == 1


async def test_a_last_commit_waits_for_traces_within_its_bound() -> None:
    scene = Scene(timedelta(milliseconds=1))
    cursor = traced(scene)
    move(cursor, 1)
    assert await scene.committer.finish([("traced", cursor)], LONG)
    assert scene.traces.asked.is_set()
    assert cursor.committed.offset == 1

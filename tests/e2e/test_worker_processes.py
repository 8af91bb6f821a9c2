"""Several workers under one command: they share the work, and one that dies is replaced."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.service import Process, eventually, has_all, running
from tests.e2e.test_crashes import TOPIC, numbered
from tests.e2e.test_scaling import PARTITIONS, owners, shared_by
from tests.fakes.subscriber import Reply, Subscriber
from tests.servers.service import ONE_LOG

SLOW = Reply(delay=0.02)


def workers_of(command: Process) -> dict[int, int]:
    """The process ids of its workers, by their numbers."""
    found: dict[int, int] = {}
    for child in psutil.Process(command.pid).children():
        # One of them may end, or have ended, while we look.
        with suppress(psutil.Error):
            line = child.cmdline()
            found |= {int(line[-1]): child.pid} if "workers" in line else {}
    return found


def pid_of(worker_id: str) -> int:
    """The process behind the id of a worker: HOST-PID-SUFFIX."""
    return int(worker_id.rsplit("-", 2)[1])


@pytest.mark.long
@ONE_LOG
async def test_one_of_two_is_killed_nothing_is_lost_and_it_is_started_again(
    configuration: Mapping[str, str], logs: Path
) -> None:
    async with running(configuration, logs, workers=0) as service, Subscriber(SLOW) as receiver:
        await service.topic(TOPIC, partitions=PARTITIONS)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        command = await service.workers(2)
        await shared_by(configuration, 2)
        workers = workers_of(command)
        running_ones = [psutil.Process(pid) for pid in workers.values()]
        published = await service.publish_all(TOPIC, numbered(600))
        psutil.Process(workers[2]).kill()
        published |= await service.publish_all(TOPIC, numbered(300, start=600))
        await has_all(receiver, published)

        async def replaced() -> bool:
            now = workers_of(command)
            return now.keys() == {1, 2} and now[1] == workers[1] and now[2] != workers[2]

        await eventually(replaced)

        async def handed_over() -> bool:
            # The log may not have noticed yet that one of the first is dead.
            pids = set(workers_of(command).values())
            return {pid_of(owner) for owner in (await owners(configuration)).values()} == pids

        await eventually(handed_over)
        published |= await service.publish_all(TOPIC, numbered(300, start=900))
        await service.accounted(path, len(published))
        assert await command.stop() == 0
        assert not any(each.is_running() for each in running_ones)
    assert set(receiver.message_ids) == set(published)
    said = [json.loads(line) for line in command.log.read_text().splitlines() if line[:1] == "{"]
    starts = Counter(each["process"] for each in said if each["event"] == "worker_starting")
    assert starts == {1: 1, 2: 2}
    assert "The worker 2 ended (signal 9)" in command.log.read_text()

"""Every message is accounted for: traces, counters, undelivered list and receiver agree.

Also when processes die. What a worker had in flight, or had just ended, may have no entry of its
own then; such a message is sent again, and has its end in its trace like all others.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.accounts import (
    ALL,
    Entries,
    Mixed,
    agree,
    attempts,
    last_life,
    publication,
    statuses,
    traces_when,
)
from tests.e2e.events import some_events
from tests.e2e.service import Process, Service, running
from tests.fakes.subscriber import Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "github.events"
IN_FLIGHT = 10
LATENCY_S = 0.02
PATIENCE_S = 60.0
# So many of all are answered when something happens to the workers.
PART = 1 / 3

Upset = Callable[[Service, str, list[Process]], Awaitable[object]]


async def kill_all_workers(service: Service, _path: str, workers: list[Process]) -> None:
    for each in workers:
        await each.kill()
    await service.worker()


async def kill_first_worker(_service: Service, _path: str, workers: list[Process]) -> None:
    await workers[0].kill()


async def suspend_join_and_stop(service: Service, path: str, workers: list[Process]) -> None:
    await service.set_state(path, "SUSPENDED")
    await service.worker()
    await service.set_state(path, "ACTIVE")
    assert await workers[0].stop() == 0


class Account:
    """A run of real payloads with mixed outcomes, through which something happens to the workers.

    Workers deliver and record alike: with one, it is both that dies.
    """

    def __init__(self) -> None:
        self.events = some_events()
        self.script = Mixed(self.events.refused, LATENCY_S)
        self.traces: dict[str, Entries] = {}
        self._refused: set[str] = set()

    async def of(self, service: Service, *, workers: int, upset: Upset) -> None:
        """Publish each payload twice, do `upset` when a third is answered, wait for all ends."""
        async with Subscriber(self.script) as receiver:
            await service.topic(TOPIC, partitions=4, **ALL)
            path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
            (await service.http.put(path, json=ALL)).raise_for_status()
            published = await service.publish_all(TOPIC, list(self.events.bodies) * 2)
            started = [await service.worker() for _ in range(workers)]
            await receiver.wait_for(int(len(published) * PART), PATIENCE_S)
            await upset(service, path, started)
            self._refused = {i for i, body in published.items() if body in self.events.refused}
            delivered = len(published) - len(self._refused)
            told = partial(agree, delivered=delivered, refused=sorted(self._refused))
            await told(service, path)
            # The receiver has answered all of them by now, and nobody sends any again.
            self.traces = await traces_when(service, path, published, complete=self._is_complete)
            await told(service, path)

    def _is_complete(self, message_id: str, entries: Entries) -> bool:
        """Whether its publication is there, and all since it was last read from the log."""
        last = last_life(self.script.answers[message_id])
        said = statuses(entries)
        return (
            bool(publication(entries))
            and "subscription" not in entries[0]
            and attempts(entries)[-len(last) :] == last
            and said[-1] == ("DISCARDED" if message_id in self._refused else "SUCCESS")
        )

    def unsaid(self) -> Counter[str]:
        """How many attempts of each message the receiver has answered that no entry tells of."""
        lacking = Counter[str]()
        for message_id, entries in self.traces.items():
            said, answered = Counter(attempts(entries)), Counter(self.script.answers[message_id])
            assert said <= answered
            lacking[message_id] = (answered - said).total()
        return +lacking


@ONE_LOG
@pytest.mark.parametrize(
    ("workers", "upset"),
    [
        pytest.param(1, kill_all_workers, id="the-only-worker"),
        pytest.param(2, kill_first_worker, id="one-of-two", marks=pytest.mark.long),
    ],
)
async def test_after_a_kill_each_message_has_its_end_and_all_that_is_counted_agrees(
    configuration: Mapping[str, str], logs: Path, workers: int, upset: Upset
) -> None:
    account = Account()
    async with running(configuration, logs, workers=0) as service:
        await account.of(service, workers=workers, upset=upset)
    # That each has its last attempts was waited for: only of what was sent again some are missing.
    for message_id in account.unsaid():
        answers = account.script.answers[message_id]
        assert len(last_life(answers)) < len(answers)


@ONE_LOG
async def test_nothing_is_missing_when_a_subscription_is_suspended_and_workers_come_and_go(
    configuration: Mapping[str, str], logs: Path
) -> None:
    account = Account()
    async with running(configuration, logs, workers=0) as service:
        await account.of(service, workers=1, upset=suspend_join_and_stop)
    # What a worker that stood still for too long had in the air may have no entry, as above.
    if not service.stood_still():
        assert account.unsaid() == Counter()
        said = {i: attempts(entries) for i, entries in account.traces.items()}
        assert said == account.script.answers

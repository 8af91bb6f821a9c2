"""Real payloads with mixed outcomes: each message's trace is what its receivers saw."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.accounts import (
    ALL,
    Attempt,
    Entries,
    Mixed,
    agree,
    attempts,
    publication,
    statuses,
    traces_when,
)
from tests.e2e.events import some_events
from tests.e2e.service import Service, event_of, running
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG, ONE_LOG_AND_OLD_POSTGRES

TOPIC = "github.events"
# What begins so is wanted by the one who filters.
WANTED = "p"
ONLY_WANTED = [{"type": "jsonpath", "path": "$.event", "matcher": f"{WANTED}.*"}]
BATCH_SIZE = 10


class Batched:
    """Refuses batches with something in them that it does not like, others once; remembers all."""

    def __init__(self, refused: frozenset[str]) -> None:
        self.answers: dict[str, list[Attempt]] = defaultdict(list)
        self.batch_ids: dict[str, set[str]] = defaultdict(set)
        self._refused = refused

    def __call__(self, received: Received) -> Reply:
        ids = [each["metadata"]["id"] for each in json.loads(received.body)]
        batch_id = received.headers["hermes-batch-id"]
        fails = received.retry_count == 0 and batch_id < "8"
        status = 400 if self._refused & set(ids) else 503 if fails else 200
        for each in ids:
            self.answers[each].append((received.retry_count + 1, status))
            self.batch_ids[each].add(batch_id)
        return Reply(status=status)

    def discarded(self) -> list[str]:
        """Who has been refused for good."""
        return sorted(each for each, answers in self.answers.items() if answers[-1][1] == 400)


async def subscribed(
    service: Service,
    name: str,
    endpoint: str,
    *,
    settings: Mapping[str, Any],
    **policy: int,
) -> str:
    path = await service.subscribe(TOPIC, name, endpoint, **policy)
    (await service.http.patch(path, json={**ALL, **settings})).raise_for_status()
    await service.applied(path)
    return path


def assert_in_order(entries: Entries, answers: list[Attempt], *, end: str) -> None:
    """The publication, then each attempt as it was answered, its beginning first, then the end.

    A worker may have sent what the log has before the publisher hears that the log has it.
    """
    assert attempts(entries) == answers
    assert publication(entries) == ["INFLIGHT", "SUCCESS"]
    assert "subscription" not in entries[0]
    said = statuses(entries)
    assert said[: 2 * len(answers) : 2] == ["INFLIGHT"] * len(answers)
    assert said[2 * len(answers) :] == ([end] if end else [])
    times = [each["timestamp"] for each in entries]
    assert times == sorted(times)


def ended(
    refused: Collection[str], answers: Mapping[str, list[Attempt]]
) -> Callable[[str, Entries], bool]:
    """Whether a trace has its beginning, its attempts, and an end, which for those is a discard.

    The API says the one, a worker the others, some at a time: any of it may be recorded first.
    """

    def is_complete(message_id: str, entries: Entries) -> bool:
        end = "DISCARDED" if message_id in refused else "SUCCESS"
        return (
            "SUCCESS" in publication(entries)
            and len(attempts(entries)) >= len(answers[message_id])
            and end in statuses(entries)
        )

    return is_complete


@ONE_LOG_AND_OLD_POSTGRES
async def test_each_trace_is_what_the_receiver_answered_attempt_by_attempt(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    script = Mixed(events.refused)
    async with running(configuration, logs) as service, Subscriber(script) as receiver:
        await service.topic(TOPIC, partitions=4, **ALL)
        path = await subscribed(service, "s", receiver.url, settings={})
        wanted = {"filters": ONLY_WANTED}
        filtering = await subscribed(service, "f", receiver.url, settings=wanted)
        await service.set_state(filtering, "SUSPENDED")
        await service.applied(filtering)
        published = await service.publish_all(TOPIC, events.bodies)
        refused = [each for each, body in published.items() if body in events.refused]
        await agree(service, path, delivered=len(published) - len(refused), refused=refused)

        traces = await traces_when(
            service, path, published, complete=ended(refused, script.answers)
        )
        for message_id, entries in traces.items():
            end = "DISCARDED" if message_id in refused else ""
            assert_in_order(entries, script.answers[message_id], end=end)
        await assert_filtered(service, filtering, published=published, script=script)
        await assert_found(service, published)


async def assert_filtered(
    service: Service, path: str, *, published: Mapping[str, bytes], script: Mixed
) -> None:
    """What is not wanted is said to be so, and never sent; the rest is told apart by its receiver.

    The same receiver has answered all of them before.
    """
    script.answers.clear()
    wanted = {each for each, body in published.items() if event_of(body).startswith(WANTED)}
    await service.set_state(path, "ACTIVE")

    def is_complete(message_id: str, entries: Entries) -> bool:
        if message_id not in wanted:
            return "FILTERED" in statuses(entries)
        answers = script.answers.get(message_id, [])
        said = len(attempts(entries)) >= len(answers)
        return said and bool({"SUCCESS", "DISCARDED"} & set(statuses(entries)))

    traces = await traces_when(service, path, published, complete=is_complete)
    assert set(script.answers) == wanted
    for message_id, entries in traces.items():
        if message_id in wanted:
            assert attempts(entries) == script.answers[message_id]
        else:
            assert statuses(entries) == ["FILTERED"]


async def assert_found(service: Service, published: Mapping[str, bytes]) -> None:
    """Each is found by a value in its body, with all others that have it, and with no other."""
    by_event: dict[str, set[str]] = defaultdict(set)
    for message_id, body in published.items():
        by_event[event_of(body)].add(message_id)
    for event, ids in sorted(by_event.items())[:3]:
        query = {"path": "$.event", "value": event}
        url: str | None = str(httpx.URL(f"/topics/{TOPIC}/messages", params=query))
        found: list[str] = []
        while url is not None:
            answer = (await service.http.get(url)).raise_for_status()
            found += [each["messageId"] for each in answer.json()]
            url = answer.links.get("next", {}).get("url")
        assert sorted(found) == sorted(ids)


@ONE_LOG
async def test_each_message_of_a_batch_has_the_trace_of_its_batch(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    async with running(configuration, logs) as service, Subscriber() as receiver:
        await service.topic(TOPIC, partitions=2, **ALL)
        batching = {"deliveryType": "BATCH"}
        policy = {"batchSize": BATCH_SIZE, "batchTime": 300, "batchVolume": 1_000_000}
        path = await subscribed(service, "b", receiver.url, settings=batching, **policy)
        await service.set_state(path, "SUSPENDED")
        await service.applied(path)
        published = await service.publish_all(TOPIC, events.bodies)
        script = Batched(frozenset(i for i, body in published.items() if body in events.refused))
        receiver.reply = script
        await service.set_state(path, "ACTIVE")
        await service.accounted(path, len(published))
        refused = script.discarded()
        assert len(refused) >= len(events.refused)
        await agree(service, path, delivered=len(published) - len(refused), refused=refused)

        traces = await traces_when(
            service, path, published, complete=ended(refused, script.answers)
        )
    for message_id, entries in traces.items():
        end = "DISCARDED" if message_id in refused else ""
        assert_in_order(entries, script.answers[message_id], end=end)
        told = {each["batchId"] for each in entries if each.get("batchId")}
        assert told == script.batch_ids[message_id]

"""Real payloads with mixed outcomes: each message's trace is what its receiver saw."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.events import some_events
from tests.e2e.service import Service, eventually, running
from tests.fakes.subscriber import Received, Reply, Subscriber

TOPIC = "github.events"
ALL = {"trackingMode": "trackingAll"}
IN_FLIGHT = 20
LATENCY_S = 0.02
# A trace leaves its worker, and a delivery is committed, within this time; on a busy machine either
# may be first.
UNSAID_S = 0.5
UNSAID = IN_FLIGHT + int(UNSAID_S * IN_FLIGHT / LATENCY_S)
ENDS = {"SUCCESS", "FAILED"}


class Mixed:
    """Refuses some for good, others once, and takes the rest; remembers what it answered."""

    def __init__(self, refused: frozenset[bytes], delay: float = 0.0) -> None:
        self.answers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._refused = refused
        self._delay = delay

    def __call__(self, received: Received) -> Reply:
        status = self._status(received)
        self.answers[received.message_id].append((received.retry_count + 1, status))
        return Reply(status=status, delay=self._delay)

    def _status(self, received: Received) -> int:
        if received.body in self._refused:
            return 400
        return 503 if received.retry_count == 0 and len(received.body) % 3 == 0 else 201


async def trace(service: Service, path: str, message_id: str) -> list[dict[str, Any]]:
    response = await service.http.get(f"{path}/events/{message_id}/trace")
    entries: list[dict[str, Any]] = response.raise_for_status().json()
    return entries


async def complete_traces(
    service: Service,
    path: str,
    *,
    messages: Mapping[str, bytes],
    refused: frozenset[bytes],
    lacking: int = 0,
) -> dict[str, list[dict[str, Any]]]:
    """The traces of all messages, once all but so many have their publication and their end."""
    traces: dict[str, list[dict[str, Any]]] = {}
    complete = set[str]()

    async def all_there() -> bool:
        incomplete = 0
        for message_id in messages.keys() - complete:
            found = traces[message_id] = await trace(service, path, message_id)
            said = {(each.get("subscription"), each["status"]) for each in found}
            end = "DISCARDED" if messages[message_id] in refused else "SUCCESS"
            if {(None, "SUCCESS"), ("s", end)} <= said:
                complete.add(message_id)
                continue
            incomplete += 1
            if incomplete > lacking:
                return False
        return True

    await eventually(all_there)
    return traces


def attempts(entries: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Each attempt's number and answer."""
    sent = [each for each in entries if "subscription" in each and each["status"] in ENDS]
    return [(each["attempt"], each["statusCode"]) for each in sent]


async def agree(service: Service, path: str, *, count: int, discarded: int) -> None:
    """The counters, the list of undelivered messages, and what must have become of all."""
    metrics = await service.accounted(path, count)
    assert (metrics["delivered"], metrics["discarded"]) == (count - discarded, discarded)
    assert len(await service.undelivered(path, discarded)) == discarded
    listed = await service.http.get(f"/topics/{TOPIC}/undelivered?limit=1000")
    assert len(listed.json()) == discarded


async def test_each_trace_is_what_the_receiver_answered_attempt_by_attempt(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    script = Mixed(events.refused)
    async with running(configuration, logs) as service, Subscriber(script) as receiver:
        await service.topic(TOPIC, partitions=4, **ALL)
        path = await service.subscribe(TOPIC, "s", receiver.url)
        (await service.http.put(path, json=ALL)).raise_for_status()
        published = await service.publish_all(TOPIC, events.bodies)
        refused = [each for each, body in published.items() if body in events.refused]
        await agree(service, path, count=len(published), discarded=len(refused))
        traces = await complete_traces(service, path, messages=published, refused=events.refused)
    for message_id, entries in traces.items():
        assert attempts(entries) == script.answers[message_id]
        statuses = [each["status"] for each in entries]
        assert statuses[:2] == ["INFLIGHT", "SUCCESS"]
        assert (statuses[-1] == "DISCARDED") == (message_id in refused)
        # Each attempt begins before it ends, and nothing else is said.
        middle = statuses[2:-1] if message_id in refused else statuses[2:]
        assert middle[::2] == ["INFLIGHT"] * len(script.answers[message_id])
        times = [each["timestamp"] for each in entries]
        assert times == sorted(times)


async def test_after_a_kill_all_agree_and_a_trace_lacks_only_what_was_just_happening(
    configuration: Mapping[str, str], logs: Path
) -> None:
    events = some_events()
    script = Mixed(events.refused, LATENCY_S)
    # Several times the payloads, so that the worker dies in the middle.
    bodies = list(events.bodies) * 3
    async with running(configuration, logs, workers=0) as service, Subscriber(script) as receiver:
        await service.topic(TOPIC, partitions=4, **ALL)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
        (await service.http.put(path, json=ALL)).raise_for_status()
        published = await service.publish_all(TOPIC, bodies)
        refused = [each for each, body in published.items() if body in events.refused]
        first = await service.worker()
        await receiver.wait_for(len(published) // 3, 60)
        await first.kill()
        await service.worker()
        await agree(service, path, count=len(published), discarded=len(refused))
        traces = await complete_traces(
            service, path, messages=published, refused=events.refused, lacking=UNSAID // 5
        )
    missing = 0
    for message_id, entries in traces.items():
        said, answered = Counter(attempts(entries)), Counter(script.answers[message_id])
        assert said <= answered
        missing += (answered - said).total()
    assert missing <= UNSAID

"""Rules for broadcasts: what is sent again to an address, and when (docs/requests.md)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from tests.simulation.rounds import requests_of_rounds
from tests.simulation.rules_of_sending import TOLERANCE_S, begun_at, unexcused
from tests.simulation.story import Attempt, Life, Position, Story
from tests.simulation.violation import Violation


def addresses_get_again_only_what_they_have_not_finished(story: Story) -> Iterator[Violation]:
    """A retry goes only to addresses that have neither accepted nor refused the message.

    Another owner of the partition sends it to all addresses again, unless it was delivered to all.
    """
    for life in _with_addresses(story):
        if life.begins_again or story.is_rewound(life.created.topic):
            continue
        for message, attempts in life.attempts.items():
            position = story.position(message)
            if position is None or message in story.lost_messages:
                continue
            for again, why in _repeated(story, life, attempts, position=position):
                text = f"{life.id} was sent {message} again at {again.address}: {why}"
                yield Violation("duplicate", again.sent.at, text)


def _repeated(
    story: Story, life: Life, attempts: Sequence[Attempt], *, position: Position
) -> Iterator[tuple[Attempt, str]]:
    """Yield each attempt that must not be, and why."""
    # The attempts with which an owner of the partition finished the message, by address.
    finished: dict[tuple[str, float], dict[str, Attempt]] = defaultdict(dict)
    for again in attempts:
        owner = again.sent.worker, begun_at(story, life, position.partition, again=again)
        first = finished[owner].get(again.address)
        if first is not None and first.finished_at < again.sent.begun:
            yield again, f"{owner[0]} had finished it there"
        for addresses in finished.values():
            last = max(addresses.values(), key=lambda each: each.finished_at, default=None)
            if last is None or len(addresses) <= len(life.plan.addresses):
                continue
            if last.finished_at < again.sent.begun:
                why = unexcused(story, life, position, first=last, again=again)
                if why:
                    yield again, why
        if again.finished_at < inf:
            finished[owner].setdefault(again.address, again)


def all_addresses_are_asked_later(story: Story) -> Iterator[Violation]:
    """After the longest `Retry-After` of an attempt, and not before, an address gets anything."""
    for life in _with_addresses(story):
        quiet: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for message in life.attempts:
            for requests in requests_of_rounds(life, message):
                if (times := _quiet(life, requests)) is not None:
                    quiet[requests[0].sent.worker].append(times)
        for attempt in life.all_attempts():
            sent = attempt.sent
            if any(since < sent.begun < until for since, until in quiet[sent.worker]):
                text = f"{life.id} was sent {sent.message} at {attempt.address} too early"
                yield Violation("retry-after", sent.at, text)


def _quiet(life: Life, requests: Sequence[Attempt]) -> tuple[float, float] | None:
    """Return from when until when nothing may be sent after an attempt."""
    waits = [each.heard.retry_after or 0.0 for each in requests if each.heard is not None]
    ended = max(each.ended_at for each in requests)
    if not any(waits) or ended == inf:
        return None
    # The history does not tell of addresses that could not be reached. The worker waits for them.
    all_known = len(requests) > len(life.plan.addresses)
    since = ended if all_known else requests[0].sent.begun + life.plan.timeout_s
    return since + TOLERANCE_S, ended + max(waits) - TOLERANCE_S


def _with_addresses(story: Story) -> Iterator[Life]:
    return (life for life in story.lives.values() if life.plan.addresses)


BROADCAST_RULES: Final = (
    addresses_get_again_only_what_they_have_not_finished,
    all_addresses_are_asked_later,
)

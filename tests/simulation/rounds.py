"""The attempts of a message as workers count them: all requests of one broadcast count once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from tests.simulation.history import Broken
from tests.simulation.story import Attempt, Life


def rounds_of(life: Life, message: str) -> Sequence[Attempt]:
    """Return the attempts of a message. Those of a broadcast tell only when they begin and end."""
    if not life.plan.addresses:
        return life.attempts.get(message, ())
    return [_as_one(requests) for requests in requests_of_rounds(life, message)]


def all_rounds(life: Life) -> Sequence[Attempt]:
    """Return the attempts of all messages, in the order in which they began."""
    if not life.plan.addresses:
        return life.all_attempts()
    rounds = (each for message in life.attempts for each in rounds_of(life, message))
    return sorted(rounds, key=lambda each: each.sent.begun)


def requests_of_rounds(life: Life, message: str) -> Iterator[Sequence[Attempt]]:
    """Yield the requests of each broadcast of a message."""
    rounds: list[list[Attempt]] = []
    latest: dict[tuple[str, int], list[Attempt]] = {}
    for attempt in life.attempts.get(message, ()):
        key = attempt.sent.worker, attempt.sent.retry_count
        requests = latest.get(key)
        if requests is None or _is_anew(attempt, requests):
            requests = latest[key] = []
            rounds.append(requests)
        requests.append(attempt)
    return iter(rounds)


def _is_anew(attempt: Attempt, before: Sequence[Attempt]) -> bool:
    """Whether a request does not belong to the round of those before it."""
    again = any(each.address == attempt.address for each in before)
    return again or attempt.sent.begun > max(each.ended_at for each in before)


def _as_one(requests: Sequence[Attempt]) -> Attempt:
    first, begun = requests[0].sent, min(each.sent.begun for each in requests)
    ended_at = max(each.ended_at for each in requests)
    ended = Broken(at=ended_at, request=first.request, message=first.message)
    return Attempt(replace(first, begun=begun), broken=ended if ended_at < inf else None)

"""Rules for OAuth: the tokens of requests, and when the provider is asked (docs/requests.md)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from tests.simulation.history import TokenAnswered, TokenAsked, TokenEnded
from tests.simulation.rules_of_sending import TOLERANCE_S
from tests.simulation.story import Life, Story
from tests.simulation.tokens import TokenPlan
from tests.simulation.violation import Violation

UNAUTHORIZED: Final = 401
OK: Final = 200
# The product makes a pause up to this part shorter or longer, at random.
JITTER: Final = 0.1
# For how long a worker may use a token at least, whatever its lifetime is.
LIFETIME_MIN_S: Final = 1.0
# A worker that was paused may send later what it decided to send before.
PAUSED_S: Final = 20.0


def requests_have_valid_tokens(story: Story) -> Iterator[Violation]:
    """A worker sends nothing without a token, and only tokens that it got, until they expire."""
    if (plan := story.plan.tokens) is None:
        return
    got = _tokens_got(story)
    lifetime_s = max(plan.lifetime_s, LIFETIME_MIN_S) if plan.lifetime_s else inf
    for life in _authorized(story):
        for attempt in life.all_attempts():
            sent, token = attempt.sent, attempt.token
            since = got.get((sent.worker, token), inf)
            if not token:
                yield Violation("token", sent.at, f"{life.id} was sent {sent.message} without one")
            elif sent.begun < since:
                text = f"{life.id} was sent {sent.message} with {token} of another worker"
                yield Violation("token", sent.at, text)
            elif sent.begun > since + lifetime_s and not _paused(story, sent.worker, sent.begun):
                text = f"{life.id} was sent {sent.message} with {token}, which had expired"
                yield Violation("token", sent.at, text)


def _tokens_got(story: Story) -> dict[tuple[str, str], float]:
    """Return when each worker got each of its tokens."""
    workers = {each.request: each.worker for each in story.history.of(TokenAsked)}
    tokens = {each.request: each.token for each in story.history.of(TokenAnswered)}
    return {
        (workers[each.request], tokens[each.request]): each.at
        for each in story.history.of(TokenEnded)
        if each.status == OK
    }


def _paused(story: Story, worker: str, at: float) -> bool:
    return story.troubled(at - PAUSED_S, at, frozenset({"pause"}), where=worker)


def providers_are_not_asked_too_often(story: Story) -> Iterator[Violation]:
    """A worker sends one token request at a time, and waits longer after each that failed."""
    if (plan := story.plan.tokens) is None:
        return
    ends = {each.request: each for each in story.history.of(TokenEnded)}
    asked: dict[str, list[TokenAsked]] = defaultdict(list)
    for each in story.history.of(TokenAsked):
        asked[each.worker].append(each)
    for worker, requests in asked.items():
        pauses = _pauses(plan, requests, ends)
        for after, (ended_at, pause_s) in zip(requests[1:], pauses, strict=False):
            if after.begun < ended_at + pause_s - TOLERANCE_S:
                text = f"{worker} asked for a token {after.begun - ended_at:.3f} s after a failure"
                yield Violation("token request", after.at, text)


def _pauses(
    plan: TokenPlan, requests: Sequence[TokenAsked], ends: dict[int, TokenEnded]
) -> Iterator[tuple[float, float]]:
    """Yield for each request when it ended, and how long the pause after it must be at least."""
    failures = 0
    for each in requests:
        ended = ends.get(each.request)
        if ended is None:
            yield inf, 0.0
            continue
        failures = 0 if ended.status == OK else failures + 1
        longest_s = max(plan.delay_s, plan.delay_max_s)
        pause_s = min(plan.delay_s * 2.0 ** (failures - 1), longest_s) if failures else 0.0
        yield ended.at, max(pause_s * (1 - JITTER), ended.retry_after or 0.0)


def one_refused_token_is_not_final(story: Story) -> Iterator[Violation]:
    """After its first 401 a message is sent again with another token, if the delays allow it."""
    if (plan := story.plan.tokens) is None:
        return
    pause_s = max(plan.delay_s, plan.delay_max_s) * (1 + JITTER)
    for life in _authorized(story):
        refused = [
            each
            for each in life.all_attempts()
            if each.heard is not None and each.heard.status == UNAUTHORIZED
        ]
        for discard in life.discarded:
            mine = life.attempts.get(discard.message, ())
            first = [each for each in refused if each in mine]
            if len(first) != 1 or not _is_for_token(discard.reason):
                continue
            one = first[0]
            recent = any(
                other is not one
                and other.sent.worker == one.sent.worker
                and one.ended_at - pause_s <= other.ended_at <= one.ended_at
                for other in refused
            )
            if not recent:
                text = f"{life.id} discarded {discard.message}: {discard.reason}"
                yield Violation("token", discard.at, text)


def _is_for_token(reason: str) -> bool:
    return str(UNAUTHORIZED) in reason


def _authorized(story: Story) -> Iterator[Life]:
    return (life for life in story.lives.values() if life.plan.authorized)


TOKEN_RULES: Final = (
    requests_have_valid_tokens,
    providers_are_not_asked_too_often,
    one_refused_token_is_not_final,
)

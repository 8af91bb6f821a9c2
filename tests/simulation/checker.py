"""The rules that every history must obey: what the documents of the product promise."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from tests.simulation.history import (
    Complained,
    Ended,
    History,
    Measured,
    Unreached,
    original,
)
from tests.simulation.plan import RESEND, Plan
from tests.simulation.rounds import rounds_of
from tests.simulation.rules_of_batches import BATCH_RULES, fits
from tests.simulation.rules_of_broadcast import BROADCAST_RULES
from tests.simulation.rules_of_dead_letters import DEAD_LETTER_RULES
from tests.simulation.rules_of_ledgers import LEDGER_RULES
from tests.simulation.rules_of_resends import RESEND_RULES, copies_before
from tests.simulation.rules_of_sending import SENDING_RULES
from tests.simulation.rules_of_tokens import TOKEN_RULES
from tests.simulation.rules_of_traces import TRACE_RULES
from tests.simulation.story import Life, Story
from tests.simulation.subscribers import digest_of
from tests.simulation.tokens import TOKENS
from tests.simulation.violation import Violation
from tests.simulation.world import body_of, keeps

Rule = Callable[[Story], Iterator[Violation]]

# A healthy subscriber gets a message within this time, in seconds, plus the time that its rate
# takes.
DELAY_MAX_S: Final = 8.0


class Obligation(NamedTuple):
    """A message that a subscription must get. Otherwise it must be listed as undelivered."""

    partition: int
    offset: int
    message: str


def check(plan: Plan, history: History) -> list[Violation]:
    """Return all violations of rules in a history."""
    story = Story(plan, history)
    return [violation for rule in RULES for violation in rule(story)]


def obligations(story: Story, life: Life) -> Iterator[Obligation]:
    """Yield the messages that a subscription must get: of those that the log has at the end."""
    for (partition, offset), stored in sorted(story.records[life.created.topic].items()):
        if offset < life.start(partition):
            continue
        if not life.plan.filtered or keeps(stored.message):
            yield Obligation(partition, offset, stored.message)


def nothing_acknowledged_is_lost(story: Story) -> Iterator[Violation]:
    """An acknowledged message stays in the log.

    Only retention, or its topic's ack, allows its loss.
    """
    all_copies = {each.name for each in story.plan.topics if each.ack_all}
    for message, at in story.acknowledged.items():
        in_log = bool(story.places[message])
        if not in_log and message not in story.lost_messages:
            yield Violation("acknowledged", at, f"{message} was acknowledged, and never stored")
        elif not in_log and story.published[message].topic in all_copies:
            topic = story.published[message].topic
            if not story.is_trimmed(topic):
                yield Violation("acknowledged", at, f"{message} is lost with ack ALL")


def everything_is_delivered_or_listed(story: Story) -> Iterator[Violation]:
    """Each subscription has accepted each message of the log, or lists it as undelivered."""
    for life in story.lives.values():
        if life.is_deleted or story.is_rewound(life.created.topic) or life.counted is None:
            continue
        listed = set(life.counted.listed)
        for partition, offset, message in obligations(story, life):
            if life.accepted_at(message) == inf and (partition, offset) not in listed:
                text = f"{life.id} neither got {message} at {partition}/{offset}, nor is it listed"
                yield Violation("lost", story.acknowledged.get(message, 0.0), text)


def moves_are_made(story: Story) -> Iterator[Violation]:
    """After the last move of a subscription, it is sent each message from there on."""
    for life in story.lives.values():
        if life.is_deleted or not _is_moved_for_good(life) or life.counted is None:
            continue
        if story.is_rewound(life.created.topic):
            continue
        moved_at = life.seeks[-1].at
        sent = {message for message, each in life.sent_messages() if each.sent.at >= moved_at}
        sent |= {each.message for each in life.discarded if each.at >= moved_at}
        for partition, offset, message in obligations(story, life):
            if message not in sent:
                text = f"{life.id} was not sent {message} at {partition}/{offset} after its move"
                yield Violation("move", moved_at, text)


def _is_moved_for_good(life: Life) -> bool:
    """Whether each move was answered before the next one, and none was undone."""
    if not life.seeks:
        return False
    begun = [each.at for each in life.seeks]
    answered = [each for each in life.done if each.what == "seek"]
    undone = any(each.what == "undone" and each.at >= begun[-1] for each in life.ordered)
    in_turn = all(
        any(first <= each.ordered_at and each.at <= then for each in answered)
        for first, then in zip(begun, [*begun[1:], inf], strict=True)
    )
    return in_turn and not undone


def only_what_was_published_is_delivered(story: Story) -> Iterator[Violation]:
    """A subscriber gets only messages of its topic that pass its filters, with unchanged bodies."""
    bodies = {each.name: digest_of(body_of(each)) for each in story.plan.messages}
    for life in story.lives.values():
        for message, attempt in life.sent_messages():
            at, published = attempt.sent.at, story.published.get(original(message))
            if published is None or published.topic != life.created.topic:
                yield Violation("foreign", at, f"{life.id} was sent {message}")
            elif attempt.has_another_body(bodies[published.message]):
                yield Violation("foreign", at, f"{life.id} was sent {message} with another body")
            elif life.plan.filtered and not keeps(message):
                yield Violation(
                    "filter", at, f"{life.id} was sent {message} in spite of its filter"
                )


def counters_agree(story: Story) -> Iterator[Violation]:
    """At the end, the counts and the list of discards of a subscription agree with its history."""
    for life in story.lives.values():
        counted, topic = life.counted, life.created.topic
        if counted is None or life.is_deleted or story.is_rewound(topic):
            continue
        if len(set(counted.listed)) != len(counted.listed):
            yield Violation("counters", counted.at, f"{life.id} lists a discard twice")
        recorded = {(each.partition, each.offset) for each in life.discarded}
        if stray := set(counted.listed) - recorded:
            yield Violation("counters", counted.at, f"{life.id} lists {stray}, never discarded")
        if life.seeks:
            continue
        # A discard stays listed, and is not counted, if retention removed its message before a
        # commit passed it.
        trimmed = story.is_trimmed(topic) and counted.discarded < len(counted.listed)
        if counted.discarded != len(counted.listed) and not trimmed:
            text = f"{life.id} counts {counted.discarded} discards and lists {len(counted.listed)}"
            yield Violation("counters", counted.at, text)
        if not story.is_trimmed(topic):
            yield from _totals_agree(story, life)


def _totals_agree(story: Story, life: Life) -> Iterator[Violation]:
    counted = life.counted
    assert counted is not None
    records = story.records[life.created.topic].items()
    mine = [each.message for place, each in records if place.offset >= life.start(place.partition)]
    copies = story.copies_of(life).values()
    mine += [each.message for each in copies]
    left_out = sum(life.plan.filtered and not keeps(message) for message in mine)
    expected = len(mine) - left_out - len(counted.listed), left_out
    # A subscription passes copies of a cancelled retransmission, and does not count them.
    passed = sum(each.retransmission in story.cancelled for each in copies)
    missing = expected[0] - counted.delivered
    if not 0 <= missing <= passed or counted.filtered != left_out:
        text = f"{life.id} counts {counted.delivered} delivered and {counted.filtered} filtered out"
        yield Violation("counters", counted.at, f"{text}; of its history: {expected}")


def discards_have_a_reason(story: Story) -> Iterator[Violation]:
    """A message is discarded only after a final refusal, or after enough attempts or time."""
    unreached = {each.subscription for each in story.history.of(Unreached)}
    for life in story.lives.values():
        plan = life.plan
        if plan.ttl_s < 3_600 or plan.on_exhausted not in {"WAIT", "RUN"}:
            continue
        for discard in life.discarded:
            if not fits(story, life, discard.message):
                continue
            attempts = rounds_of(life, discard.message)
            sent = life.attempts.get(discard.message, ())
            refused = any(each.heard and each.heard.status in {400, 401} for each in sent)
            # The history does not tell for which message an attempt could not connect, or had no
            # token.
            tried = plan.max_retries is not None and (
                len(attempts) > plan.max_retries
                or life.created.subscription in unreached
                or (plan.authorized and not _tokens_are_well(story))
            )
            if not refused and not tried:
                text = f"{life.id} discarded {discard.message}: {discard.reason}"
                yield Violation("discard", discard.at, text)


def healthy_subscribers_wait_for_nobody(story: Story) -> Iterator[Violation]:
    """A healthy subscriber gets each message soon, even if other subscribers are not healthy."""
    others_only = frozenset(
        {"mood", "cut", "deaf", "lagging", "reset"}
        | {"suspend", "edit", "delete", "recreate", "create", "seek"}
    )
    for life in story.lives.values():
        plan = life.plan
        if not plan.is_well or plan.breaker == "shared" or life.ordered:
            continue
        if plan.authorized and not _tokens_are_well(story):
            continue
        bound = DELAY_MAX_S + 1.5 * len(story.plan.messages) / min(plan.rate, 20)
        if plan.batch is not None:
            bound += plan.batch.time_s
        for obligation in obligations(story, life):
            at = story.acknowledged.get(obligation.message)
            if at is None or at < life.created.at or not fits(story, life, obligation.message):
                continue
            waits = copies_before(story, life, at=at + bound) / min(plan.rate, 20)
            until = at + bound + 1.5 * waits
            calm = not any(
                trouble.begins <= until
                and trouble.what != RESEND
                and trouble.ends >= at - 30.0
                and not (trouble.what in others_only and trouble.where != life.created.subscription)
                for trouble in story.troubles
            )
            taken = life.accepted_at(obligation.message)
            if calm and taken > until:
                text = f"{life.id} got {obligation.message} after {taken - at:.1f} s"
                yield Violation("delay", at, text)


def _tokens_are_well(story: Story) -> bool:
    """Whether the provider of tokens has no fault at any time."""
    is_well = story.plan.tokens is not None and story.plan.tokens.mood == "well"
    return is_well and not any(trouble.where == TOKENS for trouble in story.troubles)


def memory_is_bounded(story: Story) -> Iterator[Violation]:
    """A worker has no more waiting retries and requests of a subscription than it may have."""
    for measured in story.history.of(Measured):
        life = story.lives.get(measured.incarnation)
        if life is None:
            continue
        since = story.known_since(measured.at, within_s=10.0)
        _, in_flight = life.settings(since, measured.at)
        # When the buffer becomes full, each request in flight may still fail and need a place in
        # it. Later, fewer requests may be allowed, while what waits stays there.
        _, at_most = life.settings(0.0, measured.at)
        waiting = life.plan.retry_buffer + at_most
        if measured.waiting_retries > waiting or measured.in_flight > in_flight:
            yield Violation("memory", measured.at, str(measured))


def everything_drains(story: Story) -> Iterator[Violation]:
    """After the last fault, everything is finished in time. No unexpected error was logged."""
    ended: Sequence[Ended] = [*story.history.of(Ended)]
    if not ended:
        yield Violation("liveness", story.history.events[-1].at, "the run did not end")
    for end in ended:
        if end.left:
            yield Violation("liveness", end.at, "; ".join(end.left[:5]))
    for complained in story.history.of(Complained):
        yield Violation("complaint", complained.at, f"{complained.process}: {complained.what}")


RULES: Final[Sequence[Rule]] = (
    nothing_acknowledged_is_lost,
    everything_is_delivered_or_listed,
    moves_are_made,
    only_what_was_published_is_delivered,
    counters_agree,
    discards_have_a_reason,
    healthy_subscribers_wait_for_nobody,
    memory_is_bounded,
    everything_drains,
    *SENDING_RULES,
    *BATCH_RULES,
    *BROADCAST_RULES,
    *TOKEN_RULES,
    *DEAD_LETTER_RULES,
    *TRACE_RULES,
    *RESEND_RULES,
    *LEDGER_RULES,
)

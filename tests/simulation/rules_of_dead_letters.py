"""Rules for dead letters: which copies there are, and when (docs/sending-again.md)."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from tests.simulation.history import DeadLettered, Discarded
from tests.simulation.rules_of_sending import UNANSWERED_S
from tests.simulation.story import OF_LOG, OF_WORKER, Story
from tests.simulation.subscribers import digest_of
from tests.simulation.violation import Violation
from tests.simulation.world import body_of


class _Discard(NamedTuple):
    """What a copy is of: a message of a subscription, at a position."""

    subscription: str
    topic: str
    partition: int
    offset: int
    message: str


def discards_are_copied_first(story: Story) -> Iterator[Violation]:
    """When a discard is recorded, the dead-letter topic has a copy of the message."""
    copies: dict[_Discard, float] = {}
    for letter in story.history.of(DeadLettered):
        copies.setdefault(_discard_of(letter, letter.subscription), letter.at)
    for life in story.lives.values():
        for discard in life.discarded if life.plan.dead_lettered else ():
            copied_at = copies.get(_discard_of(discard, life.created.subscription))
            if copied_at is None or copied_at > discard.at:
                text = f"{life.id} discarded {discard.message} before it was copied"
                yield Violation("dead letter", discard.at, text)


def _discard_of(event: DeadLettered | Discarded, subscription: str) -> _Discard:
    return _Discard(subscription, event.topic, event.partition, event.offset, event.message)


def copies_are_like_their_messages(story: Story) -> Iterator[Violation]:
    """A copy has the key and the body of its message, and belongs to a subscription with copies."""
    subscriptions = {
        life.created.subscription for life in story.lives.values() if life.plan.dead_lettered
    }
    for letter in story.history.of(DeadLettered):
        published = story.published.get(letter.message)
        if published is None or letter.subscription not in subscriptions:
            yield Violation("dead letter", letter.at, f"nobody asked for a copy: {letter}")
        elif letter.key != published.key or letter.topic != published.topic:
            yield Violation("dead letter", letter.at, f"a copy differs from its message: {letter}")
        elif letter.body != digest_of(body_of(story.messages[letter.message])):
            yield Violation("dead letter", letter.at, f"a copy has another body: {letter}")


def copies_are_repeated_with_their_id(story: Story) -> Iterator[Violation]:
    """A copy is stored again only after a fault or by another owner, and with the same id."""
    discards: dict[str, _Discard] = {}
    copies: dict[str, list[DeadLettered]] = defaultdict(list)
    for letter in story.history.of(DeadLettered):
        copies[letter.id].append(letter)
        discard = _discard_of(letter, letter.subscription)
        if discards.setdefault(letter.id, discard) != discard:
            yield Violation("dead letter", letter.at, f"{letter.id} is the id of two copies")
    for id_, letters in copies.items():
        for first, again in pairwise(letters):
            if not _may_repeat(story, first, again):
                yield Violation("dead letter", again.at, f"{id_} was copied again")


def _may_repeat(story: Story, first: DeadLettered, again: DeadLettered) -> bool:
    since = first.at - UNANSWERED_S
    moved = any(
        since <= each.at <= again.at and (each.topic, each.partition) == _place(first)
        for each in story.owned
    )
    changed = any(
        since <= each.at <= again.at
        for life in story.lives.values()
        if life.created.subscription == first.subscription
        for each in life.ordered
    )
    return moved or changed or story.troubled(since, again.at, OF_LOG | OF_WORKER)


def _place(letter: DeadLettered) -> tuple[str, int]:
    return letter.topic, letter.partition


DEAD_LETTER_RULES: Final = (
    discards_are_copied_first,
    copies_are_like_their_messages,
    copies_are_repeated_with_their_id,
)

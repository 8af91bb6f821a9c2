"""Rules for batches: their limits, bodies and ids, their order, and how long they wait.

docs/requests.md promises them. All other rules hold for batches, too: a batch is an attempt of each
of its messages.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import orjson

from app.domain.delivery import BATCH_VOLUME_EXCEEDED
from tests.simulation.batches import BatchPlan
from tests.simulation.history import Sent
from tests.simulation.rules_of_sending import TOLERANCE_S, finished_at
from tests.simulation.story import Attempt, Life, Position, Story
from tests.simulation.subscribers import digest_of
from tests.simulation.violation import Violation
from tests.simulation.virtual_loop import EPOCH_S, START_S
from tests.simulation.world import body_of, keeps


def batches_keep_their_limits(story: Story) -> Iterator[Violation]:
    """Each request has a batch, and the batch has neither too many messages nor too many bytes."""
    for life, plan in _with_batches(story):
        for attempt in life.all_attempts():
            batch, sent = attempt.batch, attempt.sent
            if batch is None or not batch.messages:
                text = f"{life.id} was sent {sent.message}, which is no batch"
                yield Violation("batch limits", sent.at, text)
            elif len(batch.messages) > max(_sizes(life, plan, sent.at)):
                text = f"{life.id} was sent {len(batch.messages)} messages at once"
                yield Violation("batch limits", sent.at, text)
            elif batch.size > plan.volume:
                text = f"{life.id} was sent {batch.size} bytes, of {plan.volume}"
                yield Violation("batch limits", sent.at, text)


def _sizes(life: Life, plan: BatchPlan, until: float) -> Sequence[int]:
    """Return the limits of messages in a batch that the subscription may have had until then."""
    return [plan.size, *(each.size for each in life.rebatched if each.at <= until)]


def batches_have_their_messages(story: Story) -> Iterator[Violation]:
    """The body of a batch has exactly the bodies that were published, in its format."""
    for life, plan in _with_batches(story):
        for attempt in life.all_attempts():
            batch, arrived = attempt.batch, attempt.arrived
            if batch is None or arrived is None:
                continue
            if not all(message in story.published for message in batch.messages):
                continue  # another rule finds that
            pieces = [piece_of(story, plan, message) for message in batch.messages]
            if arrived.body != digest_of(_framed(plan, pieces)):
                text = f"{life.id} was sent {batch.messages} in a wrong body"
                yield Violation("foreign", arrived.at, text)


def piece_of(story: Story, plan: BatchPlan, message: str) -> bytes:
    """Return what a batch has for a message."""
    body = body_of(story.messages[message])
    if plan.format != "WRAPPED":
        return body
    published_s = EPOCH_S + story.published[message].at - START_S
    metadata = {"timestamp": int(published_s * 1_000), "id": message, "externalMetadata": {}}
    return b'{"_w":true,"metadata":%b,"message":%b}' % (orjson.dumps(metadata), body)


def _framed(plan: BatchPlan, pieces: Sequence[bytes]) -> bytes:
    if plan.format == "NDJSON":
        return b"".join(piece + b"\n" for piece in pieces)
    return b"[" + b",".join(pieces) + b"]"


def fits(story: Story, life: Life, message: str) -> bool:
    """Whether a message fits into a request of the subscription."""
    plan = life.plan.batch
    return plan is None or len(_framed(plan, [piece_of(story, plan, message)])) <= plan.volume


def only_large_messages_fit_into_no_batch(story: Story) -> Iterator[Violation]:
    """A message is discarded as too large for a batch only if it is."""
    for life in story.lives.values():
        for discard in life.discarded:
            if discard.reason == BATCH_VOLUME_EXCEEDED and fits(story, life, discard.message):
                text = f"{life.id} discarded {discard.message}: {discard.reason}"
                yield Violation("discard", discard.at, text)


def batches_have_one_id(story: Story) -> Iterator[Violation]:
    """The same messages always have the same batch id, and other messages have another one."""
    for life, _ in _with_batches(story):
        ids: dict[tuple[str, ...], str] = {}
        batches: dict[str, tuple[str, ...]] = {}
        for attempt in life.all_attempts():
            if attempt.batch is None:
                continue
            messages, sent = attempt.batch.messages, attempt.sent
            if batches.setdefault(sent.message, messages) != messages:
                text = f"{life.id} was sent {messages} as {sent.message}"
                yield Violation("batch id", sent.at, text)
            if not all(story.position(message) for message in messages):
                continue  # stored twice, or again after a loss: such messages are not the same
            if ids.setdefault(messages, sent.message) != sent.message:
                text = f"{life.id} was sent {messages} with another id"
                yield Violation("batch id", sent.at, text)


def incomplete_batches_wait(story: Story) -> Iterator[Violation]:
    """A batch with room for more messages is sent only when its first message has waited."""
    for life, plan in _with_batches(story):
        sizes = [len(piece_of(story, plan, each)) for each in _messages_of(story, life)]
        largest = max((size for size in sizes if size <= plan.volume - 2), default=0)
        for attempt in life.all_attempts():
            batch, sent = attempt.batch, attempt.sent
            if batch is None or not batch.messages or sent.retry_count:
                continue
            has_room = len(batch.messages) < min(_sizes(life, plan, inf))
            if not has_room or batch.size + 1 + largest > plan.volume:
                continue
            since = min(story.stored_at.get(message, -inf) for message in batch.messages)
            waited = sent.at - since
            too_early = waited < plan.time_s - TOLERANCE_S
            if too_early and not _lost_some(story, life, sent=sent, since=since):
                text = f"{life.id} was sent {batch.messages} after {waited:.3f} s"
                yield Violation("batch time", sent.at, text)


def _messages_of(story: Story, life: Life) -> Iterator[str]:
    topic = life.created.topic
    return (name for name, each in story.published.items() if each.topic == topic)


def _lost_some(story: Story, life: Life, *, sent: Sent, since: float) -> bool:
    """Whether the worker lost a partition since then, before it sent a batch without it."""
    return any(
        not each.gained
        and since <= each.at <= sent.at
        and (each.process, each.topic) == (sent.worker, life.created.topic)
        for each in story.owned
    )


def batches_are_in_order(story: Story) -> Iterator[Violation]:
    """A message is sent only with, or after, all messages before it in its partition."""
    for life, _ in _with_batches(story):
        topic = life.created.topic
        if life.begins_again or story.is_rewound(topic):
            continue
        finished = finished_at(story, life)
        lines: dict[int, list[tuple[Position, str]]] = defaultdict(list)
        for position, stored in sorted(story.records[topic].items()):
            if _counts(story, life, position, message=stored.message):
                lines[position.partition].append((position, stored.message))
        for attempt in life.all_attempts():
            for line in lines.values():
                if blocker := _blocker(attempt, line, finished):
                    text = f"{life.id} was sent {attempt.sent.message} before {blocker}"
                    yield Violation("order", attempt.sent.at, text)


def _counts(story: Story, life: Life, position: Position, *, message: str) -> bool:
    """Whether the order of a message is known, and it is sent."""
    if position.offset < life.start(position.partition) or message in story.lost_messages:
        return False
    wanted = not life.plan.filtered or keeps(message)
    return wanted and story.position(message) is not None and fits(story, life, message)


def _blocker(
    attempt: Attempt, line: Sequence[tuple[Position, str]], finished: dict[Position, float]
) -> str:
    """Return the message of a partition that had to be sent or finished before; empty if none."""
    batch = attempt.batch.messages if attempt.batch is not None else ()
    # The places in the order of the line, and in that of the batch.
    places = {name: place for place, name in line if name in batch}
    mine = [places[name] for name in batch if name in places]
    if not mine:
        return ""
    if mine != [*places.values()]:
        return "messages before some of its own"
    for place, name in line:
        if place >= mine[-1]:
            break
        if name not in places and finished[place] > attempt.sent.at:
            return f"{name} was finished"
    return ""


def _with_batches(story: Story) -> Iterator[tuple[Life, BatchPlan]]:
    return ((life, life.plan.batch) for life in story.lives.values() if life.plan.batch is not None)


BATCH_RULES: Final = (
    batches_keep_their_limits,
    batches_have_their_messages,
    only_large_messages_fit_into_no_batch,
    batches_have_one_id,
    incomplete_batches_wait,
    batches_are_in_order,
)

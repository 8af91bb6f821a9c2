"""Rules for requests: no duplicates, in order, within the rate, not too early, and not too late."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Final

from tests.simulation.history import Done, original
from tests.simulation.rounds import all_rounds, rounds_of
from tests.simulation.story import (
    OF_DATABASE,
    Attempt,
    Life,
    Position,
    Story,
    within,
)
from tests.simulation.violation import Violation
from tests.simulation.world import keeps

# A message is committed within 250 ms after it is finished, and a traced message within one second
# more. These limits are larger.
COMMIT_MAX_S: Final = 0.5
TRACED_COMMIT_MAX_S: Final = 2.0
# A commit without an answer delays the next one for up to this many seconds.
UNANSWERED_S: Final = 6.0
# The product rounds some times to milliseconds.
TOLERANCE_S: Final = 0.002
# After this time all workers have applied an edit, unless the database had a fault.
EDITED_S: Final = 15.0
# After this time all workers have asked the database for changes, unless it had a fault.
ASKED_S: Final = 8.0
# How long ago a clock may have been wrong for a turn in the last second.
TURNS_S: Final = 1.0
# How long after the start of a turn its request may be sent, in seconds.
TURN_S: Final = 0.03
# The longest time of a look-up of a host, in seconds, and more.
LOOK_UP_S: Final = 0.05
# How long a worker that releases a partition waits for answers to requests in flight, in seconds.
HANDOVER_S: Final = 2.5


def nothing_is_sent_after_the_end(story: Story) -> Iterator[Violation]:
    """After a suspension or deletion was answered, nothing is sent. A resumption ends this rule."""
    for life in story.lives.values():
        attempts = life.all_attempts()
        for done in life.done:
            if done.what not in {"suspend", "delete"} or not done.applied:
                continue
            if _beside_a_resumption(life, done) or _is_undone(life, done):
                continue
            resumes = (o.at for o in life.ordered if o.what == "resume" and o.at >= done.at)
            until = next(resumes, inf) if done.what == "suspend" else inf
            for attempt in attempts:
                sent = attempt.sent
                # A broadcast that waits for its connection is sent all the same.
                at = sent.begun if life.plan.addresses else sent.at
                if not done.at < at < until:
                    continue
                before = done.at - 20.0
                paused = story.troubled(before, sent.at, frozenset({"pause"}), where=sent.worker)
                if not paused and not story.troubled(before, sent.at, OF_DATABASE):
                    text = f"{life.id} was sent {sent.message} after its {done.what} was answered"
                    yield Violation("after the end", sent.at, text)


def nothing_is_sent_after_the_creation_was_lost(story: Story) -> Iterator[Violation]:
    """Workers learn that a new server of the database does not have a subscription."""
    for life in story.lives.values():
        for lost in (each for each in life.ordered if each.what == "lost"):
            for attempt in life.all_attempts():
                sent = attempt.sent
                if sent.at <= lost.at + ASKED_S:
                    continue
                before = sent.at - ASKED_S
                paused = story.troubled(before, sent.at, frozenset({"pause"}), where=sent.worker)
                if not paused and not story.troubled(before, sent.at, OF_DATABASE):
                    text = f"{life.id} was sent {sent.message} after its creation was lost"
                    yield Violation("after the end", sent.at, text)


def _beside_a_resumption(life: Life, suspension: Done) -> bool:
    """Whether a resumption overlapped this suspension. Then nobody knows which came last."""
    return any(
        each.what == "resume"
        and each.ordered_at <= suspension.at
        and suspension.ordered_at <= each.at
        for each in life.done
    )


def _is_undone(life: Life, change: Done) -> bool:
    """Whether the database lost changes of the subscription after this change was asked for."""
    return any(each.what == "undone" and each.at >= change.ordered_at for each in life.ordered)


def duplicates_were_in_the_air(story: Story) -> Iterator[Violation]:
    """A finished message is sent again only if a fault could prevent the commit of its outcome."""
    for life in story.lives.values():
        if life.begins_again or story.is_rewound(life.created.topic) or life.plan.addresses:
            continue
        for message, attempts in life.attempts.items():
            position = story.position(message)
            if position is None or message in story.lost_messages:
                continue
            delivered: Attempt | None = None
            for attempt in attempts:
                if delivered is not None and delivered.finished_at < attempt.sent.at:
                    why = unexcused(story, life, position, first=delivered, again=attempt)
                    if why:
                        text = f"{life.id} was sent {message} again: {why}"
                        yield Violation("duplicate", attempt.sent.at, text)
                if attempt.finished_at < inf:
                    delivered = attempt


def unexcused(
    story: Story, life: Life, position: Position, *, first: Attempt, again: Attempt
) -> str:
    """Return why a finished message must not be sent again; empty if it may be sent again."""
    partition, offset = position
    heard_at, sent = first.finished_at, again.sent
    read = life.last_read(sent.worker, partition, sent.at)
    if read is not None and (
        offset < read.offset or any(low <= offset < high for low, high in read.done)
    ):
        return f"{sent.worker} had read that it is finished"
    begun = begun_at(story, life, partition, again=again)
    # When a worker gets a partition back, it does not know the outcome of requests that were in
    # flight when it lost the partition.
    in_the_air = first.sent.begun < begun
    if first.sent.worker == sent.worker and begun < heard_at and not in_the_air:
        return f"{sent.worker} had finished it itself"
    late = TRACED_COMMIT_MAX_S if life.plan.traced else COMMIT_MAX_S
    if story.disturbed(first.sent.worker, heard_at - UNANSWERED_S, heard_at + late):
        return ""
    # A worker that releases a partition does not wait longer than HANDOVER_S for a request in
    # flight.
    moved = story.left(first.sent.worker, life.created.topic, partition)
    if any(first.sent.at <= at and heard_at - at > HANDOVER_S for at in moved):
        return ""
    return f"finished {sent.at - heard_at:.3f} s before, and no fault then"


def begun_at(story: Story, life: Life, partition: int, *, again: Attempt) -> float:
    """Return when the worker of an attempt began to deliver the partition.

    This is when it last read a commit, or when it got the partition, whichever is later.
    """
    sent = again.sent
    read = life.last_read(sent.worker, partition, sent.at)
    got = story.got(sent.worker, life.created.topic, partition, before=sent.at)
    return max(-inf if read is None else read.at, got)


def order_is_kept(story: Story) -> Iterator[Violation]:
    """In an ordered subscription, a message is sent only when those before it are finished."""
    for life in story.lives.values():
        topic = life.created.topic
        if life.plan.ordering == "NONE" or life.begins_again or story.is_rewound(topic):
            continue
        if life.plan.batch is not None:
            continue  # batches have an order of their own
        finished = finished_at(story, life)
        lines: dict[tuple[int, str | None], list[tuple[Position, str]]] = defaultdict(list)
        for position, stored in story.wanted(life):
            key = story.published[original(stored.message)].key
            if life.plan.ordering == "PARTITION" or key is not None:
                place = position.partition, key if life.plan.ordering == "KEY" else None
                lines[place].append((position, stored.message))
        for line in lines.values():
            yield from _in_order(story, life, line=line, finished=finished)


def finished_at(story: Story, life: Life) -> dict[Position, float]:
    """Return when each message was accepted or discarded; infinite if it was not."""
    finished: dict[Position, float] = {}
    for discard in life.discarded:
        finished.setdefault(Position(discard.partition, discard.offset), discard.at)
    for position, stored in story.wanted(life):
        accepted_at = life.accepted_at(stored.message)
        finished[position] = min(accepted_at, finished.get(position, inf))
    return finished


def _in_order(
    story: Story,
    life: Life,
    *,
    line: list[tuple[Position, str]],
    finished: dict[Position, float],
) -> Iterator[Violation]:
    before, blocker = -inf, ""
    for position, message in line:
        if position.offset < life.start(position.partition):
            continue
        if life.plan.filtered and not keeps(message):
            continue
        single = story.position(message) is not None and message not in story.lost_messages
        attempts = life.attempts.get(message, ())
        for attempt in attempts if single else ():
            if attempt.sent.at < before:
                text = f"{life.id} was sent {message} before {blocker} was finished"
                yield Violation("order", attempt.sent.at, text)
        if finished[position] > before and single:
            before, blocker = finished[position], message


def the_rate_is_kept(story: Story) -> Iterator[Violation]:
    """In any second, all workers together send at most `rate` requests of a subscription.

    While a worker may not know the number of partitions, each worker keeps the rate for itself
    (docs/delivery.md).
    """
    for life in story.lives.values():
        # A broadcast counts when it begins. The first one waits until its host is looked up.
        several = bool(life.plan.addresses)
        tolerance_s = LOOK_UP_S if several else TOLERANCE_S
        attempts = sorted(
            all_rounds(life), key=lambda each: each.sent.begun if several else each.sent.at
        )
        times = [each.sent.begun if several else each.sent.at for each in attempts]
        for index, at in enumerate(times):
            sent = within(times, index, 1.0 - tolerance_s)
            if sent <= life.plan.rate // 2:
                continue
            rate, _ = life.settings(story.known_since(at, within_s=EDITED_S), at)
            recent = attempts[index + 1 - sent : index + 1]
            if sent > rate and _some_partition_is_unknown(story, life.created.topic, at):
                sent = max(Counter(each.sent.worker for each in recent).values())
            elif sent > rate and rate < story.partition_count(life.created.topic, at):
                sent = _sent_in_turn(story, recent, at)
            if sent > rate:
                yield Violation("rate", at, f"{life.id} was sent {sent} in a second, of {rate}")
                break


def _some_partition_is_unknown(story: Story, topic: str, at: float) -> bool:
    """Whether the database may have kept from a worker that a partition was added."""
    added = (
        each.begins for each in story.troubles if (each.what, each.where) == ("partitions", topic)
    )
    return any(
        story.troubled(since, since + EDITED_S, OF_DATABASE)
        and story.troubled(max(since, at - EDITED_S), at, OF_DATABASE)
        for since in added
        if since <= at
    )


def _sent_in_turn(story: Story, recent: Sequence[Attempt], at: float) -> int:
    """Return how many of the requests in a second count, if workers send in turn.

    They do so if the rate is below the number of partitions (`workers.delivery.time_slots`). A
    request that is late for its second turn does not count, because it is sent all the same
    (docs/delivery.md). If the clocks of workers differ, each worker keeps the rate for itself.
    """
    in_turn = (each.sent for each in recent if each.sent.at - each.sent.begun <= TURN_S)
    workers = Counter(sent.worker for sent in in_turn)
    if story.troubled(at - TURNS_S, at, frozenset({"clock"})):
        return max(workers.values(), default=0)
    return workers.total()


def retry_after_is_kept(story: Story) -> Iterator[Violation]:
    """After an answer with `Retry-After`, the worker sends nothing to the subscriber until then."""
    for life in story.lives.values():
        if life.plan.addresses:
            continue  # there is another rule for broadcasts
        quiet_until: dict[str, float] = {}
        events: list[tuple[float, int, Attempt]] = []
        for attempt in life.all_attempts():
            events.append((attempt.sent.at, 0, attempt))
            if attempt.heard is not None and attempt.heard.retry_after is not None:
                events.append((attempt.heard.at, 1, attempt))
        for at, is_answer, attempt in sorted(events, key=lambda each: each[:2]):
            worker = attempt.sent.worker
            if is_answer and attempt.heard and attempt.heard.retry_after is not None:
                until = at + attempt.heard.retry_after
                quiet_until[worker] = max(quiet_until.get(worker, 0.0), until)
            elif not is_answer and at < quiet_until.get(worker, 0.0) - TOLERANCE_S:
                early = quiet_until[worker] - at
                text = f"{life.id} was sent {attempt.sent.message} {early:.3f} s too early"
                yield Violation("retry-after", at, text)


def attempts_are_limited(story: Story) -> Iterator[Violation]:
    """A message has at most `max_retries` retries.

    Attempts that a fault made forgotten do not count.
    """
    for life in story.lives.values():
        retries = life.plan.max_retries
        if retries is None or life.begins_again or story.is_rewound(life.created.topic):
            continue
        for message in life.attempts:
            position, every = story.position(message), rounds_of(life, message)
            if position is None or len(every) <= retries + 1 or message in story.lost_messages:
                continue
            attempts = _of_one_owner(story, life, every, position=position)
            forgotten = sum(
                _may_be_forgotten(story, life, each, position=position) for each in attempts
            )
            if len(attempts) > retries + 1 + forgotten:
                text = f"{life.id} was sent {message} {len(attempts)} times, of {retries + 1}"
                yield Violation("attempts", attempts[-1].sent.at, text)


def _of_one_owner(
    story: Story, life: Life, attempts: Sequence[Attempt], *, position: Position
) -> Sequence[Attempt]:
    """Return the attempts to count: all, unless the message was in different batches.

    Then they are those of the last owner of the partition. An owner collects new batches. A batch
    has the attempts of its message with the fewest.
    """
    if len({each.batch.messages for each in attempts if each.batch is not None}) <= 1:
        return attempts
    last = attempts[-1]
    since = begun_at(story, life, position.partition, again=last)
    worker = last.sent.worker
    return [each for each in attempts if each.sent.worker == worker and each.sent.at >= since]


def _may_be_forgotten(story: Story, life: Life, attempt: Attempt, *, position: Position) -> bool:
    late = TRACED_COMMIT_MAX_S if life.plan.traced else COMMIT_MAX_S
    until = attempt.ended_at + late
    since = attempt.sent.at - UNANSWERED_S
    if attempt.ended_at == inf or story.disturbed(attempt.sent.worker, since, until):
        return True
    moved = story.left(attempt.sent.worker, life.created.topic, position.partition)
    return any(attempt.sent.at <= at <= until for at in moved)


def retries_are_in_time(story: Story) -> Iterator[Violation]:
    """A worker retries a message only after its backoff, and only within its time to live."""
    for life in story.lives.values():
        if story.is_rewound(life.created.topic):
            continue
        for message in life.attempts:
            position, attempts = story.position(message), rounds_of(life, message)
            if position is None or message in story.lost_messages:
                continue
            by_worker: dict[str, list[Attempt]] = defaultdict(list)
            for attempt in attempts:
                by_worker[attempt.sent.worker].append(attempt)
            for worker, mine in by_worker.items():
                for before, after in pairwise(mine):
                    yield from _retry(story, life, position, before=before, after=after)
                yield from _lived(story, life, position, worker=worker, mine=mine)


def _retry(
    story: Story, life: Life, position: Position, *, before: Attempt, after: Attempt
) -> Iterator[Violation]:
    worker, sent = after.sent.worker, after.sent
    begun_anew = begun_at(story, life, position.partition, again=after) > before.sent.at
    runs = life.plan.on_exhausted == "RUN"
    if (
        begun_anew
        or runs
        or story.troubled(before.sent.at, sent.at, frozenset({"clock"}), where=worker)
    ):
        return
    # A retry may use a connection that another request began to open, so `begun` may be earlier.
    if sent.at < before.ended_at + life.plan.backoff_s - TOLERANCE_S:
        text = f"{life.id} was sent {sent.message} again after {sent.at - before.ended_at:.3f} s"
        yield Violation("backoff", sent.at, text)


def _lived(
    story: Story, life: Life, position: Position, *, worker: str, mine: list[Attempt]
) -> Iterator[Violation]:
    if life.plan.breaker:
        return  # the time to live stops while a circuit is open
    for attempt in mine[1:]:
        since = begun_at(story, life, position.partition, again=attempt)
        first = next(each.sent.at for each in mine if each.sent.at >= since)
        lived = attempt.sent.begun - first
        if lived <= life.plan.ttl_s + TOLERANCE_S or life.begins_again:
            continue
        moved = frozenset({"clock", "pause"})
        if not story.troubled(first, attempt.sent.at, moved, where=worker):
            text = f"{life.id} was sent {attempt.sent.message} after {lived:.3f} s"
            yield Violation("time to live", attempt.sent.at, text)


def requests_in_flight_are_limited(story: Story) -> Iterator[Violation]:
    """A worker has at most `in_flight_max` requests of a subscription in flight."""
    for life in story.lives.values():
        changes: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for attempt in all_rounds(life):
            mine = changes[attempt.sent.worker]
            mine.append((attempt.sent.at, 1))
            mine.append((attempt.ended_at, -1))
        for worker, mine in changes.items():
            in_flight = 0
            for at, change in sorted(mine):
                in_flight += change
                if change > 0 and in_flight > life.plan.in_flight // 2:
                    _, allowed = life.settings(story.known_since(at, within_s=EDITED_S), at)
                    if in_flight > allowed:
                        text = f"{worker} has {in_flight} of {life.id} in flight, of {allowed}"
                        yield Violation("in flight", at, text)
                        break


SENDING_RULES: Final = (
    nothing_is_sent_after_the_end,
    nothing_is_sent_after_the_creation_was_lost,
    duplicates_were_in_the_air,
    order_is_kept,
    the_rate_is_kept,
    retry_after_is_kept,
    attempts_are_limited,
    retries_are_in_time,
    requests_in_flight_are_limited,
)

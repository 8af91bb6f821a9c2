"""Rules for retransmissions (docs/spark.md): what was chosen is sent once, and not too fast."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from tests.simulation.history import Copied, ResendEnded, Resent, Stored, original
from tests.simulation.story import OF_DATABASE, OF_LOG, OF_WORKER, Life, Position, Story
from tests.simulation.violation import Violation

# A worker renews its lease at least this often, in seconds, so it knows of a cancellation then.
CANCELLED_S: Final = 1.5
# How long an append without an answer may take, and how long a lease lasts, in seconds.
UNKNOWN_S: Final = 30.0
# How long an append may be under way, in seconds, and how soon it is sent after a pause.
LATE_S: Final = 12.0
RESUMED_S: Final = 2.0
# What may be appended at once is earned in a quarter of a second, and by a late append twice.
EARNED_S: Final = 0.5
# As many copies may be unfinished as the rate allows in this time (s), but at least AHEAD_MIN.
AHEAD_S: Final = 2.0
AHEAD_MIN: Final = 20
# How many messages a worker may have taken from the log that it cannot send yet.
HELD: Final = 2
# Faults that can make appends late, or their outcome unknown.
_OF_APPENDS: Final = OF_LOG - {"commits refused", "commits late"} | {"log cut", "log deaf"}
_OF_FEEDS: Final = OF_LOG | OF_WORKER | OF_DATABASE | {"stop"}


def copies_before(story: Story, life: Life, *, at: float) -> int:
    """Return how many copies the subscription was sent until the time `at`."""
    return sum(each.at <= at for each in story.copies_of(life).values())


def only_chosen_messages_are_sent_again(story: Story) -> Iterator[Violation]:
    """A retransmission sends messages that were chosen, to its subscription, and each once."""
    resent = {each.retransmission: each for each in story.history.of(Resent)}
    messages = _messages(story)
    last: dict[tuple[int, tuple[int, int]], float] = {}
    for copied in story.history.of(Copied):
        number, source = copied.retransmission, copied.source
        of, text = resent.get(number), f"retransmission {number} sent {copied.message}"
        if of is None or source not in of.chosen or of.incarnation != copied.incarnation:
            yield Violation("resend", copied.at, f"{text}, which was not chosen")
        elif original(copied.message) not in messages[copied.topic, Position(*source)]:
            yield Violation("resend", copied.at, f"{text}, which was not at {source}")
        before = last.get((number, source))
        if before is not None and not _may_be_sent_twice(story, copied, before=before):
            yield Violation("resend", copied.at, f"{text} twice, {copied.at - before:.3f} s apart")
        last[number, source] = copied.at
    for life in story.lives.values():
        mine = {each.message for each in _copies_ever(story, life)}
        for message, attempts in life.attempts.items():
            if message != original(message) and message not in mine:
                text = f"{life.id} was sent {message}, which is for another subscription"
                yield Violation("foreign", attempts[0].sent.at, text)


def _copies_ever(story: Story, life: Life) -> Iterator[Copied]:
    return (each for each in story.history.of(Copied) if each.incarnation == life.id)


def _messages(story: Story) -> dict[tuple[str, Position], set[str]]:
    """Return the messages that were at a position: several if the log has lost some."""
    found: dict[tuple[str, Position], set[str]] = defaultdict(set)
    for each in story.history.events:
        if isinstance(each, (Stored, Copied)):
            found[each.topic, Position(each.partition, each.offset)].add(original(each.message))
    return found


def _may_be_sent_twice(story: Story, copied: Copied, *, before: float) -> bool:
    """Whether the outcome of the first append may have been unknown, or its copy was lost."""
    if any(each.topic == copied.topic for each in story.lost):
        return True
    times = before, copied.at
    late = any(story.troubled(at - LATE_S, at, _OF_APPENDS) for at in times)
    # A worker that was paused before it sent an append sends it when it goes on.
    resumed = any(
        each.what == "pause" and abs(each.ends - at) < RESUMED_S
        for each in story.troubles
        for at in times
    )
    return late or resumed


def chosen_messages_are_sent_again(story: Story) -> Iterator[Violation]:
    """A retransmission ends, and has sent what was chosen, which is delivered or listed."""
    ends = {each.retransmission: each for each in story.history.of(ResendEnded)}
    for resent in story.history.of(Resent):
        life, number = story.lives.get(resent.incarnation), resent.retransmission
        end = ends.get(number)
        if life is None or life.is_deleted or end is None or number in story.cancelled:
            continue
        copies = [each for each in _copies_ever(story, life) if each.retransmission == number]
        places = {each.source for each in copies}
        gone = any(each.topic == life.created.topic for each in story.lost)
        if missing := sorted(set(resent.chosen) - places):
            retracted = {(each.partition, each.offset) for each in life.discarded}
            if not gone and not set(missing) <= retracted:
                text = f"retransmission {number} did not send {missing} again"
                yield Violation("resend", end.at, text)
        if end.state != "DONE":
            yield Violation("resend", end.at, f"retransmission {number} is {end.state}")
        elif not (end.written == end.finished == len(places)) and not gone:
            text = f"retransmission {number} counts {end.written} sent and {end.finished} finished"
            yield Violation("resend", end.at, f"{text}, of {len(places)}")
    yield from _copies_are_delivered(story)


def _copies_are_delivered(story: Story) -> Iterator[Violation]:
    for life in story.lives.values():
        if life.is_deleted or story.is_rewound(life.created.topic) or life.counted is None:
            continue
        listed = set(life.counted.listed)
        for position, copied in story.copies_of(life).items():
            if position.offset < life.start(position.partition):
                continue
            accepted = any(each.accepted_at < inf for each in life.attempts.get(copied.message, ()))
            dropped = copied.retransmission in story.cancelled
            if not accepted and position not in listed and not dropped:
                text = f"{life.id} neither got {copied.message}, nor is it listed"
                yield Violation("lost", copied.at, text)


def cancelled_messages_are_not_sent(story: Story) -> Iterator[Violation]:
    """After a cancellation, nothing is appended. What is appended late is dropped."""
    for life in story.lives.values():
        for done in life.done:
            what, _, number = done.what.partition(" ")
            if what != "cancel" or not done.applied:
                continue
            for copied in _copies_ever(story, life):
                if str(copied.retransmission) != number or copied.at <= done.at:
                    continue
                calm = not story.troubled(done.at - UNKNOWN_S, copied.at, _OF_FEEDS)
                if calm and copied.at > done.at + CANCELLED_S:
                    text = f"{copied.message} was appended, and retransmission {number} cancelled"
                    yield Violation("resend", copied.at, text)
            if life.plan.ordering == "NONE":
                yield from _dropped(story, life, number=number, at=done.at)


def _dropped(story: Story, life: Life, *, number: str, at: float) -> Iterator[Violation]:
    """A worker passes what it had not taken, apart from one message, when it knew of the end."""
    taken: Counter[str] = Counter()
    begun_s = at + life.plan.timeout_s + CANCELLED_S
    for message, attempts in life.attempts.items():
        first = attempts[0].sent
        if message.partition("+")[2] != number or first.at <= begun_s:
            continue
        taken[first.worker] += 1
        calm = not story.troubled(at - UNKNOWN_S, first.at, OF_DATABASE | {"pause"})
        if taken[first.worker] > HELD and calm:
            text = f"{life.id} was sent {message} of a cancelled retransmission"
            yield Violation("resend", first.at, text)


def the_share_is_kept(story: Story) -> Iterator[Violation]:
    """Messages are appended at most at the share and the rate of a request, and not far ahead."""
    appended: dict[int, list[Copied]] = defaultdict(list)
    for copied in story.history.of(Copied):
        appended[copied.retransmission].append(copied)
    for resent in story.history.of(Resent):
        if (life := story.lives.get(resent.incarnation)) is None:
            continue
        rate, _ = life.settings(-inf, inf)
        pace = min(rate * resent.share, resent.rate_max or inf)
        copies = appended[resent.retransmission]
        yield from _not_too_fast(resent, copies, pace=pace)
        yield from _not_too_far_ahead(
            story, life, copies=copies, at_most=max(AHEAD_MIN, int(pace * AHEAD_S)), pace=pace
        )


def _not_too_fast(resent: Resent, copies: Sequence[Copied], *, pace: float) -> Iterator[Violation]:
    burst = _at_once(pace)
    for first, begin in enumerate(copies):
        for last in range(first + 1, len(copies)):
            seconds, count = copies[last].at - begin.at, last - first + 1
            if count > pace * seconds + burst + 1:
                text = f"{count} messages of retransmission {resent.retransmission}"
                yield Violation(
                    "resend", begin.at, f"{text} in {seconds:.3f} s, of {pace:.2f} a second"
                )
                return


def _at_once(pace: float) -> float:
    """Return how many messages may be appended at once."""
    return max(2.0, pace * EARNED_S)


def _not_too_far_ahead(
    story: Story, life: Life, *, copies: Sequence[Copied], at_most: int, pace: float
) -> Iterator[Violation]:
    if len(copies) <= at_most:
        return
    for index, copied in enumerate(copies):
        finished = _finished(story, life, before=copied.at)
        # A copy whose append got no answer is appended again, and the worker counts it once.
        left = len(
            {each.source for each in copies[: index + 1] if not _is_finished(each, finished)}
        )
        # A worker that takes over does not count what was appended and not recorded before.
        taken_over = story.troubled(copied.at - UNKNOWN_S, copied.at, _OF_FEEDS)
        if left > at_most + (_at_once(pace) if taken_over else 0.0):
            text = f"{left} copies of retransmission {copied.retransmission} are unfinished"
            yield Violation("resend", copied.at, f"{text}, of {at_most}")
            return


def _finished(story: Story, life: Life, *, before: float) -> dict[int, tuple[int, set[int]]]:
    """Return the highest committed offset, and what was finished above it, by partition."""
    found: dict[int, tuple[int, set[int]]] = {}
    for each in story.committed:
        if each.incarnation != life.id or each.at > before:
            continue
        offset, above = found.get(each.partition, (0, set()))
        done = {number for low, high in each.done for number in range(low, high)}
        found[each.partition] = max(offset, each.offset), above | done
    return found


def _is_finished(copied: Copied, finished: dict[int, tuple[int, set[int]]]) -> bool:
    offset, above = finished.get(copied.partition, (0, set()))
    return copied.offset < offset or copied.offset in above


RESEND_RULES: Final = (
    only_chosen_messages_are_sent_again,
    chosen_messages_are_sent_again,
    cancelled_messages_are_not_sent,
    the_share_is_kept,
)

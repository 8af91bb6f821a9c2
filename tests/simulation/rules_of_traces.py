"""Rules for traces: those of traced subscriptions agree with the history (docs/tracing.md)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from app.domain.streams import TRACES
from tests.simulation.history import Copied, Stored, Traced, Unreached
from tests.simulation.story import Attempt, Life, Position, Story
from tests.simulation.violation import Violation
from tests.simulation.world import keeps

# A killed worker loses the entries of the last 0.3 seconds or so. This limit is larger.
UNAPPENDED_S: Final = 0.6
# While the log accepts no entries, they wait in the worker, and are lost if it dies then. After a
# fault of the log, it takes up to this many seconds until they are appended.
BEHIND_S: Final = 8.0
# The maximum time in seconds that an orderly stop takes.
STOP_S: Final = 20.0
# Faults that can prevent appends to the stream of traces: of the log, and of one worker.
_OF_APPENDS: Final = frozenset({"log down", "log slow", "log lossy", "leader", "unclean"})
_OF_APPENDING_WORKER: Final = frozenset({"log cut", "log deaf", "pause"})
# How the reason begins if an attempt that was in flight was not sent after all.
NOT_SENT: Final = "Not sent: "
_ENDS: Final = frozenset({"SUCCESS", "FAILED"})


class _Number(NamedTuple):
    """An attempt as traces name it: the worker, the message, and the number of the attempt."""

    worker: str
    message: str
    attempt: int


@dataclass(slots=True)
class _Trace:
    """The entries of one subscription."""

    life: Life
    attempts: dict[_Number, list[Attempt]]
    ends: dict[_Number, list[Traced]] = field(default_factory=lambda: defaultdict(list))
    begun: dict[_Number, list[Traced]] = field(default_factory=lambda: defaultdict(list))
    # The statuses of the entries at each position.
    at: dict[Position, set[str]] = field(default_factory=lambda: defaultdict(set))
    decisions: list[Traced] = field(default_factory=list)

    def add(self, entry: Traced) -> None:
        number = _Number(entry.worker, entry.message, entry.attempt)
        self.at[Position(entry.partition, entry.offset)].add(entry.status)
        if entry.status in _ENDS:
            self.ends[number].append(entry)
        elif entry.status == "INFLIGHT":
            self.begun[number].append(entry)
        else:
            self.decisions.append(entry)


def traces_agree(story: Story) -> Iterator[Violation]:
    """At the end, the traces of a traced subscription agree with its history."""
    if not any(each.traced for each in story.plan.subscriptions):
        yield from (
            _violation(each, "is of no traced subscription") for each in story.history.of(Traced)
        )
        return
    traces = {life.id: _Trace(life, _numbered(life)) for life in story.lives.values()}
    placed = {
        (each.topic, each.partition, each.offset, each.message)
        for each in story.history.events
        if isinstance(each, (Stored, Copied))
    }
    for entry in story.history.of(Traced):
        trace = traces.get(entry.incarnation)
        if trace is None or not trace.life.plan.traced:
            yield _violation(entry, "is of no traced subscription")
            continue
        trace.add(entry)
        topic = trace.life.created.topic
        if (topic, entry.partition, entry.offset, entry.message) not in placed:
            yield _violation(entry, "names no place of its message")
    lost = any(each.topic == TRACES for each in story.lost)
    for trace in traces.values():
        if trace.life.plan.traced and trace.life.plan.has_one_request_for_an_attempt:
            yield from _nothing_is_invented(story, trace)
            if not lost:
                yield from _each_attempt_is_traced(story, trace)
                yield from _each_end_is_traced(story, trace)


def _numbered(life: Life) -> dict[_Number, list[Attempt]]:
    found: dict[_Number, list[Attempt]] = defaultdict(list)
    for attempt in life.all_attempts():
        sent = attempt.sent
        found[_Number(sent.worker, sent.message, sent.retry_count + 1)].append(attempt)
    return found


# ---- what is traced was so ----------------------------------------------------------------------


def _nothing_is_invented(story: Story, trace: _Trace) -> Iterator[Violation]:
    for number, entries in trace.ends.items():
        yield from _ends_were_so(trace, number=number, entries=entries)
    yield from _attempts_were_there(story, trace, _unreached(story, trace))
    discarded = {
        (each.partition, each.offset, each.message, each.reason) for each in trace.life.discarded
    }
    for entry in trace.decisions:
        told = entry.partition, entry.offset, entry.message, entry.reason
        if entry.status == "DISCARDED" and told not in discarded:
            yield _violation(entry, "was not discarded so")
        wanted = not trace.life.plan.filtered or keeps(entry.message)
        if entry.status == "FILTERED" and wanted:
            yield _violation(entry, "passes the filters")


def _attempts_were_there(
    story: Story, trace: _Trace, unreached: Counter[str]
) -> Iterator[Violation]:
    """An attempt without an answer was sent, or could not connect: not more often than that."""
    for number, entries in trace.ends.items():
        codes = Counter(each.status_code for each in entries)
        unheard = sum(each.heard is None for each in trace.attempts.get(number, ()))
        unsent = sum(each.reason.startswith(NOT_SENT) for each in entries)
        if unsent > len(trace.begun.get(number, ())):
            yield _violation(entries[0], "ended an attempt that was not sent, and had not begun")
        unreached[number.worker] -= max(0, codes[None] - unsent - unheard)
        if unreached[number.worker] < 0:
            yield _violation(entries[0], "happened less often")
    for number, entries in trace.begun.items():
        # A worker may have died while it connected.
        lives = _died_at(story, number.worker) == inf
        if lives and not trace.attempts.get(number) and not trace.ends.get(number):
            unreached[number.worker] -= 1
            if unreached[number.worker] < 0:
                yield _violation(entries[0], "began no attempt")


def _ends_were_so(trace: _Trace, *, number: _Number, entries: list[Traced]) -> Iterator[Violation]:
    attempts = trace.attempts.get(number, [])
    heard = Counter(each.heard.status for each in attempts if each.heard is not None)
    for code, count in Counter(each.status_code for each in entries).items():
        if code is not None and count > heard[code]:
            entry = next(each for each in entries if each.status_code == code)
            yield _violation(entry, f"is there {count} times, and happened {heard[code]} times")
    for entry in entries:
        accepted = entry.status_code is not None and 200 <= entry.status_code < 300
        if (entry.status == "SUCCESS") != accepted:
            yield _violation(entry, "has the wrong status")


def _unreached(story: Story, trace: _Trace) -> Counter[str]:
    """Return how often each worker could not connect to the subscriber."""
    subscription = trace.life.created.subscription
    return Counter(
        each.worker for each in story.history.of(Unreached) if each.subscription == subscription
    )


# ---- what was so is traced ----------------------------------------------------------------------


def _each_attempt_is_traced(story: Story, trace: _Trace) -> Iterator[Violation]:
    for number, attempts in trace.attempts.items():
        died = _died_at(story, number.worker)
        codes = Counter(each.status_code for each in trace.ends.get(number, ()))
        missing = []
        for attempt in attempts:
            code = None if attempt.heard is None else attempt.heard.status
            if codes[code]:
                codes[code] -= 1
            elif not _may_lack_its_end(story, attempt, died=died) or not (
                trace.begun.get(number) or _may_lack_all(story, attempt, died=died)
            ):
                missing.append(attempt)
        for attempt in missing:
            text = f"{trace.life.id} has no trace of attempt {number.attempt} of {number.message}"
            yield Violation("trace", attempt.sent.at, f"{text} by {number.worker}")


def _may_lack_its_end(story: Story, attempt: Attempt, *, died: float) -> bool:
    """Whether the worker may have died before it could append the entry of the attempt's end."""
    if died == inf:
        return False
    killed = story.troubled(died, died, frozenset({"kill"}), where=attempt.sent.worker)
    if killed and attempt.ended_at > died - UNAPPENDED_S:
        return True
    return _behind(story, attempt.sent.worker, since=attempt.ended_at, died=died)


def _may_lack_all(story: Story, attempt: Attempt, *, died: float) -> bool:
    """Whether the worker may have died before it could append that the attempt had begun."""
    if attempt.sent.at > died - UNAPPENDED_S or attempt.ended_at - attempt.sent.at < UNAPPENDED_S:
        return True
    return _behind(story, attempt.sent.worker, since=attempt.sent.at, died=died)


def _each_end_is_traced(story: Story, trace: _Trace) -> Iterator[Violation]:
    """Each finished message has its end in the trace."""
    life = trace.life
    if life.is_deleted or life.counted is None or story.is_rewound(life.created.topic):
        return
    listed = set(life.counted.listed)
    for position, stored in story.wanted(life):
        if position.offset < life.start(position.partition):
            continue
        end = "SUCCESS"
        if life.plan.filtered and not keeps(stored.message):
            end = "FILTERED"
        elif position in listed:
            end = "DISCARDED"
        if end not in trace.at[position] and not _ends_may_be_lost(story):
            text = f"{life.id} has no {end} of {stored.message} at {tuple(position)}"
            yield Violation("trace", life.counted.at, text)


def _ends_may_be_lost(story: Story) -> bool:
    """Whether a worker died while the log did not accept entries."""
    workers = {each.process for each in story.owned}
    return any(
        _behind(story, worker, since=died, died=died)
        for worker in sorted(workers)
        if (died := _died_at(story, worker)) < inf
    )


def _behind(story: Story, worker: str, *, since: float, died: float) -> bool:
    """Whether entries of that time may have waited in the worker when it died."""
    first = min(since, died) - BEHIND_S
    stops = story.troubled(died, died, frozenset({"stop"}), where=worker)
    last = died + STOP_S if stops else died
    return story.troubled(first, last, _OF_APPENDS) or story.troubled(
        first, last, _OF_APPENDING_WORKER, where=worker
    )


def _died_at(story: Story, worker: str) -> float:
    """Return when a worker was killed or told to stop; infinite if it was not."""
    kinds = {"kill", "stop"}
    died = (each.begins for each in story.troubles if each.what in kinds and each.where == worker)
    return min(died, default=inf)


def _violation(entry: Traced, text: str) -> Violation:
    told = f"{entry.status} of attempt {entry.attempt} of {entry.message} by {entry.worker}"
    return Violation("trace", entry.at, f"{entry.incarnation}: {told} ({entry.reason}) {text}")


TRACE_RULES: Final = (traces_agree,)

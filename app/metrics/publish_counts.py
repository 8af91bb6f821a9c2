"""Counts publications by topic in one process. A request takes only a few additions."""

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final

from app.domain.catalogue.topic import Ack, Topic
from app.metrics import catalogue
from app.metrics.name_cap import CappedReadings
from app.metrics.readings import Distribution, Labels
from app.metrics.shared import topic_labels

# The label for requests to unknown topics, whose names anybody can invent.
UNKNOWN: Final = ("~unknown", "~unknown")
# The upper bounds of the intervals in which durations are counted, in seconds. A publisher gets a
# response within two seconds.
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_LATENCY: Final = {
    Ack.LEADER: catalogue.ACK_LEADER_LATENCY,
    Ack.ALL: catalogue.ACK_ALL_LATENCY,
}

IsKnown = Callable[[str], object]


class Stored:
    """Counts of the messages of one topic that the log has acknowledged as `ack` requires.

    `reported` is the number of bytes that the counts in the database already include.
    """

    __slots__ = ("ack", "bytes", "messages", "reported", "seconds", "within")

    def __init__(self, ack: Ack) -> None:
        self.ack = ack
        self.messages = self.bytes = self.reported = 0
        self.seconds = 0.0
        self.within = [0] * (len(BOUNDS) + 1)

    def add(self, messages: int, size: int, began: float) -> None:
        """Count this number of stored messages, and their `size` in bytes.

        `began` is the time when the append of the messages began (`time.perf_counter`).
        """
        self.messages += messages
        self.bytes += size
        took = time.perf_counter() - began
        self.seconds += took
        self.within[bisect_left(BOUNDS, took)] += 1


class PublishCounts:
    """Requests, responses and stored messages by topic, since the process started."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[int, int]] = {}
        self._unknown: dict[int, int] = {}
        self._stored: dict[tuple[str, Ack], Stored] = {}

    def answered(self, topic: Topic | None, status: int) -> None:
        """Count a response to a request for `topic`; None if the topic is unknown."""
        if topic is None:
            answers = self._unknown
        else:
            answers = self._answers.get(topic.name) or self._answers.setdefault(topic.name, {})
        answers[status] = answers.get(status, 0) + 1

    def of(self, topic: Topic) -> Stored:
        """Return the counts of the topic's stored messages."""
        key = topic.name, topic.ack
        return self._stored.get(key) or self._stored.setdefault(key, Stored(topic.ack))

    def unreported(self) -> Sequence[tuple[str, Stored, int]]:
        """Return the topics whose counts in the database are too low.

        Each topic is returned with its name, its counts, and the number of bytes that the database
        has not counted.
        """
        return [
            (name, stored, stored.bytes - stored.reported)
            for (name, _), stored in self._stored.items()
            if stored.bytes > stored.reported
        ]

    def forget(self, topic: str) -> None:
        """Forget the counts of a deleted topic. A new topic with this name is counted from zero."""
        self._stored = {key: each for key, each in self._stored.items() if key[0] != topic}

    def read(self, capped: CappedReadings, is_known: IsKnown) -> None:
        """Add all counts to `capped`. Topics that no longer exist are forgotten."""
        self._answers = {name: each for name, each in self._answers.items() if is_known(name)}
        self._stored = {key: each for key, each in self._stored.items() if is_known(key[0])}
        for name, answers in self._answers.items():
            _read_answers(capped, answers, topic_labels(name))
        if self._unknown:
            _read_answers(capped, self._unknown, UNKNOWN)
        self._read_stored(capped)

    def _read_stored(self, capped: CappedReadings) -> None:
        totals: dict[str, tuple[int, int]] = {}
        for (name, ack), stored in self._stored.items():
            messages, size = totals.get(name, (0, 0))
            totals[name] = messages + stored.messages, size + stored.bytes
            took = Distribution(BOUNDS, tuple(stored.within), stored.seconds)
            capped.add(_LATENCY[ack], took, topic_labels(name))
        for name, (messages, size) in totals.items():
            capped.add(catalogue.PUBLISHED, messages, topic_labels(name))
            capped.add(catalogue.PUBLISHED_BYTES, size, topic_labels(name))


def _read_answers(capped: CappedReadings, answers: dict[int, int], labels: Labels) -> None:
    capped.add(catalogue.PUBLISH_REQUESTS, sum(answers.values()), labels)
    for status, count in answers.items():
        capped.add(catalogue.PUBLISH_STATUS_CODES, count, labels, str(status))

"""The state of the connections from simulated processes to the log, the database and subscribers.

Faults change this state.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

# The shortest and the longest usual time of a request or an answer, in seconds.
USUAL_S: Final = (0.0002, 0.004)


@dataclass(slots=True)
class Link:
    """The connection between a process and a service, or between a process and a subscriber.

    Attributes:
        requests_severed: Whether no request arrives.
        answers_severed: Whether no answer arrives.
        loss: The fraction of requests, and of answers, that never arrive.
        extra_s: Up to this many seconds are added to the time of each request and answer.
    """

    requests_severed: bool = False
    answers_severed: bool = False
    loss: float = 0.0
    extra_s: float = 0.0

    @property
    def reaches(self) -> bool:
        """Whether neither requests nor answers are cut off."""
        return not (self.requests_severed or self.answers_severed)

    def heal(self) -> None:
        """End all faults of this connection."""
        self.requests_severed = self.answers_severed = False
        self.loss = self.extra_s = 0.0


@dataclass(slots=True)
class Service:
    """The log, the database or the network, with the connection of each process to it."""

    random: Random
    usual_s: tuple[float, float] = USUAL_S
    down: bool = False
    extra_s: float = 0.0
    links: dict[str, Link] = field(default_factory=dict)

    def link(self, process: str) -> Link:
        """Return the connection of a process to this service."""
        return self.links.setdefault(process, Link())

    def request_s(self, process: str) -> float | None:
        """Return the seconds until a request of the process arrives; None if it never arrives."""
        link = self.link(process)
        if self.down or link.requests_severed or self._loses(link):
            return None
        return self._way_s(link)

    def answer_s(self, process: str) -> float | None:
        """Return the seconds until an answer arrives at the process; None if it never arrives."""
        link = self.link(process)
        if self.down or link.answers_severed or self._loses(link):
            return None
        return self._way_s(link)

    def heal(self) -> None:
        """End all faults of the service and its connections."""
        self.down, self.extra_s = False, 0.0
        for link in self.links.values():
            link.heal()

    def _loses(self, link: Link) -> bool:
        return link.loss > 0 and self.random.random() < link.loss

    def _way_s(self, link: Link) -> float:
        low, high = self.usual_s
        if high <= 0:
            return 0.0
        return self.random.uniform(low, high) + (self.extra_s + link.extra_s) * self.random.random()

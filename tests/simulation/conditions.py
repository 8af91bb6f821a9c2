"""How well simulated processes reach the log, the database and subscribers: what faults change."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

# Seconds that a message between two processes takes, mostly.
USUAL_S: Final = (0.0002, 0.004)


@dataclass(slots=True)
class Link:
    """One direction-aware way between a process and a service.

    `loss` is the share of messages that never arrive, in each direction. A severed direction loses
    everything. `extra_s` is added to each way.
    """

    requests_severed: bool = False
    answers_severed: bool = False
    loss: float = 0.0
    extra_s: float = 0.0

    @property
    def reaches(self) -> bool:
        """Whether a request and its answer can arrive."""
        return not (self.requests_severed or self.answers_severed)

    def heal(self) -> None:
        """End all faults of this link."""
        self.requests_severed = self.answers_severed = False
        self.loss = self.extra_s = 0.0


@dataclass(slots=True)
class Service:
    """The log, or the database, as all processes find it."""

    random: Random
    usual_s: tuple[float, float] = USUAL_S
    down: bool = False
    extra_s: float = 0.0
    links: dict[str, Link] = field(default_factory=dict)

    def link(self, process: str) -> Link:
        """The link of a process."""
        return self.links.setdefault(process, Link())

    def request_s(self, process: str) -> float | None:
        """Seconds until a request arrives; None if it does not."""
        link = self.link(process)
        if self.down or link.requests_severed or self._loses(link):
            return None
        return self._way_s(link)

    def answer_s(self, process: str) -> float | None:
        """Seconds until an answer arrives; None if it does not."""
        link = self.link(process)
        if self.down or link.answers_severed or self._loses(link):
            return None
        return self._way_s(link)

    def heal(self) -> None:
        """End all faults."""
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

"""A fetch session whose partitions are followed anew while an answer is read."""

import math
from collections.abc import Collection, Iterable, Mapping

from app.domain.message import Partition
from app.log.kafka.fetch_requests import Fetcher
from app.log.kafka.partition_leaders import ReadSource
from app.log.kafka.protocol.fetches import NO_REPLICA, FetchAnswer, FetchedPart, FetchRequest
from app.log.kafka.session import Followed, Session

HERE = Partition("t", 0)
SOURCE = ReadSource(1)
OUT_OF_RANGE = 1


class Polls(Fetcher):
    """A broker that does not have the offset of the first poll. It closes at the third one."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []

    @property
    def closed(self) -> bool:
        return len(self.requests) > 1

    async def fetch(
        self, source: ReadSource, request: FetchRequest, *, patience_s: float = math.inf
    ) -> FetchAnswer:
        assert (source, patience_s) == (SOURCE, math.inf)
        self.requests.append(request)
        error = 0 if self.closed else OUT_OF_RANGE
        return FetchAnswer(0, 1, [FetchedPart(HERE, error, b"", (), NO_REPLICA)])


class Owner:
    """A reader that finds each answer wrong, after it follows the partition from `moves_to` on."""

    def __init__(self, *, moves_to: int | None) -> None:
        self.broker = Polls()
        self.polls: Fetcher = self.broker
        self.session = Session(self, SOURCE)
        self.current = Followed(HERE, 3)
        self.session.enter(self.current)
        self.looked_up: list[Followed] = []
        self._moves_to = moves_to

    async def room(self) -> None:
        """There is always room."""

    def again(self, followed: Collection[Followed], source: ReadSource) -> None:
        assert source == SOURCE
        self.looked_up += followed

    async def arrived(
        self,
        requested: Mapping[Partition, Followed],
        parts: Iterable[FetchedPart],
        source: ReadSource,
    ) -> list[Followed]:
        assert source == SOURCE
        if self._moves_to is not None:
            self.session.leave(HERE)
            self.current = Followed(HERE, self._moves_to)
            self.session.enter(self.current)
            self._moves_to = None
        return [requested[each.partition] for each in parts if each.error_code]

    def session_ended(self, source: ReadSource) -> None:
        assert source == SOURCE


async def test_a_partition_that_is_followed_anew_stays_though_an_older_answer_was_wrong() -> None:
    owner = Owner(moves_to=7)
    await owner.session.run()
    assert [each.positions for each in owner.broker.requests] == [{HERE: 3}, {HERE: 7}]
    assert owner.looked_up == []


async def test_a_partition_that_the_broker_cannot_serve_is_looked_up_again() -> None:
    owner = Owner(moves_to=None)
    await owner.session.run()
    assert len(owner.broker.requests) == 1
    assert owner.looked_up == [owner.current]

"""Topics while brokers hear of them one after the other, and what a create finds then."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.durability import Replication
from app.domain.errors import TopicNotFoundError
from app.log.kafka.admin import Admin
from app.log.kafka.client import Leaders
from tests.contract.logs import TOPIC, a_topic

UNKNOWN, EXISTS = 3, 36


class Turns:
    """An I/O thread whose waits are over at once."""

    async def sleep(self, _seconds: float) -> None:
        return

    async def gather(self, works: Sequence[Any]) -> list[Any]:
        return [await work() for work in works]


class LaggingCluster:
    """A topic that the controller has, and that brokers hear of after `looks` looks at it."""

    def __init__(self, *, looks: int, answers: Mapping[str, Sequence[int]]) -> None:
        self._looks = looks
        self._answers = {name: list(codes) for name, codes in answers.items()}
        self.asked: list[str] = []

    async def send_controller(self, request: Any) -> Any:  # noqa: ANN401 - kafka has no types
        kind = type(request).__name__.removesuffix("Request")
        self.asked.append(kind)
        codes = self._answers.get(kind, [])
        code = codes.pop(0) if codes else 0
        answer = [SimpleNamespace(error_code=code, error_message=None)]
        return SimpleNamespace(topics=answer, responses=answer, results=answer)

    async def refresh(self, names: Sequence[str]) -> Mapping[str, Leaders]:
        self._looks -= 1
        return {} if self._looks >= 0 else self._known(names)

    async def replicas(self, _name: str) -> int:
        return 1

    async def leaders(self, names: Sequence[str]) -> Mapping[str, Leaders]:
        return self._known(names)

    def forget(self, names: Sequence[str]) -> None:
        """Nothing is kept here."""

    async def send(self, _node: int, request: Any) -> Any:  # noqa: ANN401 - as above
        parts = [
            SimpleNamespace(partition_index=each.partition_index, error_code=0, offset=0)
            for each in request.topics[0].partitions
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name=TOPIC, partitions=parts)])

    def _known(self, names: Sequence[str]) -> Mapping[str, Leaders]:
        return {name: dict.fromkeys(range(4), 1) for name in names}


def an_admin(cluster: LaggingCluster) -> Admin:
    return Admin(Turns(), cluster, replication=Replication(1))  # type: ignore[arg-type]  # fakes of both


async def test_a_topic_that_another_process_made_is_waited_for_until_the_brokers_know_it() -> None:
    cluster = LaggingCluster(looks=5, answers={"CreateTopics": [EXISTS]})
    assert len(await an_admin(cluster).create(a_topic())) == 4


async def test_a_topic_that_exists_and_is_gone_when_it_is_to_be_altered_is_created_again() -> None:
    answers = {"CreateTopics": [EXISTS], "IncrementalAlterConfigs": [UNKNOWN]}
    cluster = LaggingCluster(looks=0, answers=answers)
    assert len(await an_admin(cluster).create(a_topic())) == 4
    assert cluster.asked == ["CreateTopics", "IncrementalAlterConfigs", "CreateTopics"]


async def test_a_change_waits_until_the_brokers_know_the_topic() -> None:
    cluster = LaggingCluster(looks=5, answers={})
    assert len(await an_admin(cluster).alter(a_topic())) == 4


async def test_a_topic_that_the_controller_does_not_have_is_not_waited_for() -> None:
    cluster = LaggingCluster(looks=0, answers={"IncrementalAlterConfigs": [UNKNOWN]})
    with pytest.raises(TopicNotFoundError):
        await an_admin(cluster).alter(a_topic())

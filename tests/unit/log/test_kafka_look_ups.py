"""Topics whose brokers cannot be found: who looks them up, and for how long."""

import asyncio

from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError
from app.domain.kafka_security import IN_THE_CLEAR
from app.domain.message import NewRecord
from app.log.interface import LogStats
from app.log.kafka.append_queues import Located
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.producer import Producer
from tests.fakes.leaping_loop import LeapingLoop, passes

A_WHILE_S = 1.0
HOUR_S = 3600.0


class Unreachable:
    """Brokers that tell nobody where a topic is."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, _name: str) -> Located | None:
        self.asked += 1
        raise LogUnavailableError("no broker can be reached")


def test_a_topic_is_looked_up_until_nobody_waits_for_it() -> None:
    async def scenario() -> None:
        brokers = Unreachable()
        credentials = KafkaCredentials(IN_THE_CLEAR)
        async with Producer(
            brokers, prefix="", credentials=credentials, stats=LogStats()
        ) as producer:
            given = [NewRecord(value=b"x", key=b"k"), NewRecord(value=b"y")]
            waiting = asyncio.ensure_future(producer.append("t", given, Ack.ALL))
            await passes(A_WHILE_S)
            before = brokers.asked
            assert before > 1
            waiting.cancel()
            await passes(HOUR_S)
            assert brokers.asked <= before + 1

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scenario())

"""Spark reads what other people's producers wrote to Kafka as workers do."""

import pytest
from pyspark.sql import SparkSession

from app.domain.replay.retransmission import OffsetSpan
from app.log.factory import LogLocation
from spark.records import messages
from tests.contract.harness import KafkaHarness
from tests.contract.logs import TOPIC, created, eventually
from tests.servers.foreign_producer import ForeignProducer
from tests.servers.kafka import SharedBroker

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize(
    ("committed_only", "wanted"), [(True, [b"a"]), (False, [b"a", b"void", b"void"])]
)
async def test_records_of_aborted_transactions_are_left_out_unless_all_are_read(
    spark: SparkSession, kafka_broker: SharedBroker, *, committed_only: bool, wanted: list[bytes]
) -> None:
    harness = KafkaHarness(kafka_broker.bootstrap)
    foreign = ForeignProducer(kafka_broker, harness.namespace + TOPIC)
    async with harness.opened() as log:
        (partition,) = await created(log)
        foreign.transact([b"a"], commit=True)
        foreign.transact([b"void", b"void"], commit=False)

        async def ended() -> bool:
            return (await log.bounds([partition]))[partition].end == 5

        await eventually(ended)
    place = LogLocation(
        kafka_bootstrap=kafka_broker.bootstrap,
        kafka_committed_only=committed_only,
        kafka_rack="rack-1",
        namespace=harness.namespace,
    )
    # Its last place is that of a control record.
    span = OffsetSpan(topic=TOPIC, partition=0, start=0, end=5)
    read = messages(spark, "postgresql://nowhere/none", log=place, spans=[span])
    assert [bytes(row.value) for row in read.orderBy("offset").collect()] == wanted

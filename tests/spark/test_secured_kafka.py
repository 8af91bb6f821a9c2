"""Spark reads from listeners of Kafka with TLS and SASL."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.domain.kafka_security import KafkaSecurity, SaslMechanism
from app.domain.replay.retransmission import OffsetSpan
from app.log.factory import LogPlace
from spark.kafka_options import kafka_options
from spark.records import messages
from tests.contract.harness import KafkaHarness
from tests.contract.logs import TOPIC, created, records
from tests.servers.kafka import SharedBroker

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("sasl_ssl", "SCRAM-SHA-512"),
        pytest.param("sasl_plaintext", "PLAIN", marks=pytest.mark.long),
        ("mutual", "PLAIN"),
    ],
)
async def test_messages_are_read_from_a_secured_listener(
    spark: SparkSession, kafka_broker: SharedBroker, name: str, mechanism: SaslMechanism
) -> None:
    secured = kafka_broker.secured.at(name, mechanism=mechanism)
    harness = KafkaHarness(kafka_broker.bootstrap, secured)
    async with harness.opened() as log:
        await created(log)
        await log.append(TOPIC, records("a", "b"))
    place = LogPlace(
        kafka_bootstrap=secured.bootstrap,
        kafka_security=secured.security,
        namespace=harness.namespace,
    )
    span = OffsetSpan(topic=TOPIC, partition=0, start=0, end=2)
    read = messages(spark, "postgresql://nowhere/none", log=place, spans=[span])
    assert sorted(bytes(row.value) for row in read.collect()) == [b"a", b"b"]


def test_a_password_ends_where_the_lines_of_its_file_do(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"p\xc3\xb6\n\r\n")
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password_file=path
    )
    given = kafka_options(security)["kafka.sasl.jaas.config"]
    assert given.endswith('username="u" password="pö";')


def test_what_has_a_meaning_to_java_is_written_so_that_it_has_none() -> None:
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password='a"b\\c;'
    )
    given = kafka_options(security)["kafka.sasl.jaas.config"]
    assert given.endswith('PlainLoginModule required username="u" password="a\\"b\\\\c;";')

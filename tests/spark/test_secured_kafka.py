"""Spark reads from listeners of Kafka with TLS and SASL."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.domain.kafka_security import IN_THE_CLEAR, KafkaOAuth, KafkaSecurity, SaslMechanism
from app.domain.replay.retransmission import OffsetSpan
from app.log.factory import LogLocation
from spark.kafka_options import java_options, kafka_options
from spark.records import messages
from tests.contract.harness import KafkaHarness
from tests.contract.logs import TOPIC, created, records
from tests.servers.kafka import SharedBroker
from tests.servers.token_endpoint import TokenEndpoint

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("sasl_ssl", "SCRAM-SHA-512"),
        pytest.param("sasl_plaintext", "PLAIN", marks=pytest.mark.long),
        ("mutual", "PLAIN"),
        ("oauth", "OAUTHBEARER"),
    ],
)
async def test_messages_are_read_from_a_secured_listener(
    spark: SparkSession,
    kafka_broker: SharedBroker,
    tokens: TokenEndpoint,
    name: str,
    mechanism: SaslMechanism,
) -> None:
    secured = kafka_broker.secured.at(name, mechanism=mechanism, oauth=tokens.oauth)
    started_with(spark, java_options(secured.security))
    harness = KafkaHarness(kafka_broker.bootstrap, secured)
    async with harness.opened() as log:
        await created(log)
        await log.append(TOPIC, records("a", "b"))
    place = LogLocation(
        kafka_bootstrap=secured.bootstrap,
        kafka_security=secured.security,
        namespace=harness.namespace,
    )
    span = OffsetSpan(topic=TOPIC, partition=0, start=0, end=2)
    read = messages(spark, "postgresql://nowhere/none", log=place, spans=[span])
    assert sorted(bytes(row.value) for row in read.collect()) == [b"a", b"b"]


def started_with(spark: SparkSession, option: str) -> None:
    """As if the session, which all tests share, had been started with that option of Java."""
    name, _, value = option.removeprefix("-D").partition("=")
    if name:
        spark.sparkContext._jvm.java.lang.System.setProperty(name, value)  # type: ignore[union-attr]  # noqa: SLF001 - Spark's only way to Java


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


def test_an_endpoint_of_tokens_is_allowed_where_java_is_started() -> None:
    by_token = KafkaSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=KafkaOAuth(token_url="https://login.test/token"),
    )
    assert java_options(by_token).endswith(".allowed.urls=https://login.test/token")
    assert java_options(IN_THE_CLEAR) == ""


def test_amazons_own_login_is_used_where_tokens_are_signed() -> None:
    by_iam = KafkaSecurity(
        protocol="SASL_SSL",
        mechanism="OAUTHBEARER",
        oauth=KafkaOAuth(provider="aws-msk-iam", aws_region="eu-west-1"),
    )
    assert kafka_options(by_iam) == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    }
    assert java_options(by_iam) == ""

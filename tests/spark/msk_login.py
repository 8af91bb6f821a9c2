"""Spark logs in by Amazon's mechanism for its Kafka, with the jars of a runner: `make test-msk`.

The broker of the tests does not have that mechanism. Only Amazon's do.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from app.domain.kafka_security import KafkaOAuth
from app.domain.replay.retransmission import OffsetSpan
from app.log.factory import LogLocation
from spark.records import messages
from tests.contract.logs import TOPIC
from tests.servers.kafka import SharedBroker
from tests.servers.spark_msk import jars
from tests.spark.small import small_session

# The first test starts Spark, on a machine that may be busy.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jars."""
    with small_session(tmp_path_factory.mktemp("spark"), more_jars=jars()) as session:
        yield session


def test_brokers_are_asked_for_amazons_mechanism(
    spark: SparkSession, kafka_broker: SharedBroker
) -> None:
    secured = kafka_broker.secured.at("sasl_ssl")
    by_iam = replace(
        secured.security,
        mechanism="OAUTHBEARER",
        username=None,
        password=None,
        oauth=KafkaOAuth(provider="aws-msk-iam", aws_region="eu-west-1"),
    )
    place = LogLocation(kafka_bootstrap=secured.bootstrap, kafka_security=by_iam, namespace="")
    span = OffsetSpan(topic=TOPIC, partition=0, start=0, end=1)
    read = messages(spark, "postgresql://nowhere/none", log=place, spans=[span])
    with pytest.raises(Exception, match="Client SASL mechanism 'AWS_MSK_IAM' not enabled"):
        read.collect()

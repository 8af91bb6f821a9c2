"""What brokers must speak, held against what kafka-python knows of each version of Kafka."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from app.log.kafka.api_versions import unspoken


@pytest.mark.parametrize(
    "versions", [v for v in BROKER_API_VERSIONS if v >= (3, 0)], ids=lambda v: ".".join(map(str, v))
)
def test_brokers_from_3_0_on_speak_all_that_is_asked_of_them(versions: tuple[int, ...]) -> None:
    assert unspoken(BROKER_API_VERSIONS[versions]) is None


def test_of_older_ones_it_is_said_what_is_missing() -> None:
    assert unspoken(BROKER_API_VERSIONS[2, 8]) == (
        "the brokers do not speak OffsetFetch 8, FindCoordinator 4: Kafka does from 3.0 on"
    )


def test_what_brokers_have_given_up_is_missing_too() -> None:
    later = {key: (high, high) for key, (_, high) in BROKER_API_VERSIONS[3, 0].items()}
    said = unspoken(later)
    assert said is not None
    assert "Produce 8" in said

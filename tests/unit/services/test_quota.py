import pytest

from app.domain.catalogue.topic import THROUGHPUT_QUOTA_MAX, THROUGHPUT_QUOTA_MIN, Topic
from app.domain.errors import ThroughputQuotaError, ValidationFailedError
from app.services.publishing.quota import ThroughputQuotas

TOPIC = Topic(name="a.b", throughput_quota=2_000)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000.05

    def __call__(self) -> float:
        return self.now


def admitted(quotas: ThroughputQuotas, size: int, topic: Topic = TOPIC) -> bool:
    try:
        quotas.admit(topic, size)
    except ThroughputQuotaError:
        return False
    return True


def test_takes_as_many_bytes_a_second_as_the_quota_says() -> None:
    quotas = ThroughputQuotas(Clock())
    assert [admitted(quotas, 500) for _ in range(5)] == [True] * 4 + [False]


def test_never_takes_more_in_any_second_whatever_the_rhythm() -> None:
    clock = Clock()
    quotas = ThroughputQuotas(clock)
    taken: list[float] = []
    for _ in range(2_000):
        clock.now += 0.007
        if admitted(quotas, 100):
            taken.append(clock.now)
    most = max(sum(100 for at in taken if begin <= at < begin + 1) for begin in taken)
    assert most <= 2_000
    assert len(taken) * 100 >= 0.85 * 2_000 * 14


def test_what_is_refused_is_not_counted() -> None:
    quotas = ThroughputQuotas(Clock())
    assert admitted(quotas, 1_500)
    assert [admitted(quotas, 501) for _ in range(10)] == [False] * 10
    assert admitted(quotas, 500)


def test_takes_what_is_larger_than_the_quota_after_a_quiet_second() -> None:
    clock = Clock()
    quotas = ThroughputQuotas(clock)
    assert [admitted(quotas, 5_000), admitted(quotas, 1)] == [True, False]
    clock.now += 1.1
    assert admitted(quotas, 1)


def test_topics_have_quotas_of_their_own_or_none() -> None:
    quotas = ThroughputQuotas(Clock())
    other = Topic(name="a.c", throughput_quota=2_000)
    assert admitted(quotas, 2_000)
    assert admitted(quotas, 2_000, other)
    assert all(admitted(quotas, 10**9, Topic(name="a.d")) for _ in range(3))


@pytest.mark.parametrize("quota", [THROUGHPUT_QUOTA_MIN - 1, THROUGHPUT_QUOTA_MAX + 1])
def test_a_quota_out_of_range_names_its_field(quota: int) -> None:
    with pytest.raises(ValidationFailedError, match="throughputQuota must be 1024 to"):
        Topic(name="a.b", throughput_quota=quota)

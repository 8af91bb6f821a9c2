from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.health.forecast import LossCause
from app.domain.health.subscription_health import SubscriptionHealth
from app.domain.status import AttemptCounts, SubscriptionLoad
from tests.unit.health.looks import Model

LOOK_EVERY = 5


def looked(model: Model, seconds: int) -> SubscriptionHealth:
    """What the last look saw, of looks over so many seconds."""
    subscription_health = model.look()
    for _ in range(seconds // LOOK_EVERY):
        model.pass_seconds(LOOK_EVERY)
        subscription_health = model.look()
    return subscription_health


def until_loss(model: Model) -> float:
    """Seconds from now until the first message is lost."""
    now = model.now
    for _ in range(100_000):
        if model.first_loss is not None:
            return model.first_loss - now
        model.pass_second()
    raise AssertionError("nothing was lost")


def test_a_subscriber_that_keeps_up_has_nothing_before_it() -> None:
    subscription_health = looked(Model(arriving=10, capacity=50), 120)
    assert subscription_health.losses == ()
    assert subscription_health.lag <= 10
    assert subscription_health.lag_time < timedelta(seconds=2)
    assert subscription_health.arrival_rate == pytest.approx(10, rel=0.1)
    assert subscription_health.output_rate == pytest.approx(10, rel=0.1)
    assert subscription_health.drain == timedelta()


@pytest.mark.parametrize(
    ("arriving", "capacity", "life_s", "watched_s"),
    [(50, 25, 200, 40), (8, 6, 300, 60), (5, 1, 120, 30), (40, 36, 60, 300), (3, 0, 90, 30)],
)
def test_the_first_loss_is_forecast_within_a_fifth_of_what_then_happens(
    arriving: float, capacity: float, life_s: int, watched_s: int
) -> None:
    model = Model(arriving=arriving, capacity=capacity, retention=timedelta(seconds=life_s))
    subscription_health = looked(model, watched_s)
    assert model.first_loss is None
    assert subscription_health.first_loss is not None
    assert subscription_health.first_loss.cause is LossCause.RETENTION
    forecast = subscription_health.first_loss.at.timestamp() - model.now
    happened = until_loss(model)
    assert forecast == pytest.approx(happened, rel=0.2, abs=2)


def test_the_forecast_holds_although_the_subscriber_was_idle_for_long_before() -> None:
    model = Model(arriving=0, capacity=10, retention=timedelta(seconds=60))
    looked(model, 300)
    model.arriving = 30
    subscription_health = looked(model, 20)
    assert subscription_health.first_loss is not None
    forecast = subscription_health.first_loss.at.timestamp() - model.now
    assert forecast == pytest.approx(until_loss(model), rel=0.2)


def test_the_rate_that_is_named_saves_all_of_it() -> None:
    def model() -> Model:
        return Model(arriving=30, capacity=10, retention=timedelta(seconds=120))

    slow = model()
    loss = looked(slow, 60).first_loss
    assert loss is not None
    assert loss.rate is not None
    faster = model()
    looked(faster, 60)
    faster.capacity = loss.rate * 1.05
    faster.pass_seconds(600)
    assert faster.first_loss is None
    slow.capacity = loss.rate * 0.8
    slow.pass_seconds(600)
    assert slow.first_loss is not None


def test_a_backlog_drains_when_it_says() -> None:
    model = Model(arriving=10, capacity=0)
    looked(model, 300)
    model.capacity = 25
    # It is seen soon that it goes again.
    subscription_health = looked(model, 15)
    assert subscription_health.drain is not None
    begun = model.now
    expected = begun + subscription_health.drain.total_seconds()
    while looked(model, LOOK_EVERY).lag_time > timedelta(seconds=2):
        assert model.now < expected * 2
    assert model.now - begun == pytest.approx(expected - begun, rel=0.2)


def test_a_subscriber_that_discards_what_is_too_old_goes_on_losing() -> None:
    policy = DeliveryPolicy(publish_ttl=timedelta(seconds=30))
    model = Model(arriving=20, capacity=10, policy=policy)
    looked(model, 120)
    assert model.lost > 0
    loss = looked(model, 20).first_loss
    assert loss is not None
    assert loss.cause is LossCause.PUBLISH_TTL
    assert loss.at.timestamp() - model.now < LOOK_EVERY
    assert loss.rate == pytest.approx(20, rel=0.2)


def test_what_is_suspended_loses_by_retention_and_nobody_is_told_of_problems() -> None:
    model = Model(arriving=10, capacity=20, retention=timedelta(seconds=100))
    looked(model, 30)
    model.suspend()
    model.open = 1_000
    subscription_health = looked(model, 20)
    assert subscription_health.problems == ()
    assert subscription_health.first_loss is not None
    forecast = subscription_health.first_loss.at.timestamp() - model.now
    assert forecast == pytest.approx(until_loss(model), rel=0.1)


def test_what_a_worker_that_is_gone_had_taken_waits_again() -> None:
    model = Model(arriving=10, capacity=10)
    looked(model, 30)
    model.capacity, model.open = 0, 1_000
    subscription_health = looked(model, 20)
    assert subscription_health.lag == pytest.approx(200, abs=20)
    assert subscription_health.lag_time == timedelta()
    model.workers = frozenset()
    subscription_health = looked(model, 5)
    assert subscription_health.lag_time >= timedelta(seconds=20)


def a_load(**counts: int) -> SubscriptionLoad:
    return SubscriptionLoad(
        subscription_id="s-1",
        worker_id="w1",
        window=timedelta(seconds=60),
        in_flight=2,
        waiting_retries=5,
        counts=AttemptCounts(**counts),
    )


def test_messages_that_are_tried_in_vain_are_lost_when_their_time_to_live_ends() -> None:
    model = Model(arriving=0, capacity=0, policy=DeliveryPolicy(message_ttl=timedelta(minutes=10)))
    model.loads = [a_load(codes_5xx=30)]
    model.opened = {"s-1": model.now - 60}
    loss = model.look().first_loss
    assert loss is not None
    assert loss.cause is LossCause.MESSAGE_TTL
    assert loss.at.timestamp() == model.now + 540
    assert loss.messages == 7
    assert loss.rate is None


def test_messages_that_are_tried_end_earlier_while_they_leave_no_room_for_others() -> None:
    policy = DeliveryPolicy(retry_buffer_max=5, exhausted_wait_max=timedelta(seconds=90))
    model = Model(arriving=0, capacity=0, policy=policy)
    model.loads = [a_load(codes_5xx=30)]
    model.opened = {"s-1": model.now - 60}
    loss = model.look().first_loss
    assert loss is not None
    assert (loss.cause, loss.at.timestamp()) == (LossCause.RETRY_BUFFER, model.now + 30)


def test_a_message_that_is_tried_beside_others_that_are_taken_is_lost_only_if_it_is_old() -> None:
    model = Model(arriving=0, capacity=0, policy=DeliveryPolicy(message_ttl=timedelta(minutes=10)))
    model.loads = [a_load(codes_5xx=30, codes_2xx=500)]
    model.opened = {"s-1": model.now - 60}
    assert model.look().losses == ()
    model.opened = {"s-1": model.now - 400}
    loss = model.look().first_loss
    assert loss is not None
    assert (loss.messages, loss.at.timestamp()) == (1, model.now + 200)

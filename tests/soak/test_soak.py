"""How the soak judges curves, counts messages, and finds its rate. `make soak` runs the soak."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fakes.subscriber import Received
from tests.soak.account import Numbers, SubscriptionAccount, TopicAccount, Totals
from tests.soak.catalogue import number_of
from tests.soak.curves import HOUR_S, JUDGED_MIN_S, Point, judged, slope_per_hour
from tests.soak.endpoints import MOODS, REFUSED_ONE_IN, Endpoint, Endpoints
from tests.soak.plan import Plan
from tests.soak.publishing import next_rate
from tests.soak.readings import (
    DEAD,
    FILES,
    LIVE,
    RECORD_ROWS,
    RECORDS,
    RSS,
    STATE,
    TableSize,
    of_tables,
)
from tests.soak.recorder import HEAD, Recorder
from tests.soak.report import Report

WARM_UP_S = 600.0


def curve(value: Callable[[float], float], *, seconds: float = 7_200.0) -> list[Point]:
    """Return a curve that was read every five seconds."""
    return [Point(at, value(at)) for at in range(0, int(seconds), 5)]


def noise(seed: int = 7) -> Callable[[float], float]:
    random = Random(seed)
    return lambda _: random.gauss(0.0, 5.0)


def test_a_leak_is_found_below_noise() -> None:
    around = noise()
    points = curve(lambda at: 200 + 10 * at / HOUR_S + around(at))
    verdict = judged(points, since=WARM_UP_S, limit=6)
    assert verdict.flat is False
    assert verdict.slope == pytest.approx(10, abs=1.5)
    assert "NOT FLAT" in str(verdict)


def test_noise_without_a_leak_is_flat() -> None:
    around = noise()
    verdict = judged(curve(lambda at: 200 + around(at)), since=WARM_UP_S, limit=6)
    assert verdict.flat is True


def test_what_grows_in_the_first_minutes_alone_is_flat() -> None:
    points = curve(lambda at: 100 + min(at, HOUR_S) / 6)
    assert judged(points, since=HOUR_S, limit=1).flat is True
    assert judged(points, since=0.0, limit=1).flat is False


def test_peaks_do_not_count() -> None:
    points = curve(lambda at: 1_000.0 if at > 6_900 else 100.0)
    assert judged(points, since=WARM_UP_S, limit=1).flat is True


def test_what_falls_is_flat() -> None:
    assert judged(curve(lambda at: 9_000 - at), since=WARM_UP_S, limit=0).flat is True


def test_a_short_time_is_not_judged() -> None:
    points = curve(lambda at: at, seconds=WARM_UP_S + JUDGED_MIN_S - 10)
    verdict = judged(points, since=WARM_UP_S, limit=1)
    assert verdict.flat is None
    assert verdict.slope == pytest.approx(HOUR_S)
    assert "not judged" in str(verdict)


def test_what_grows_by_design_is_not_judged() -> None:
    verdict = judged(curve(lambda at: at), since=WARM_UP_S, limit=None)
    assert verdict.flat is None
    assert "by design" in str(verdict)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_points_have_no_slope(count: int) -> None:
    points = [Point(1.0, 2.0)] * count
    assert slope_per_hour(points) is None
    assert judged(points, since=0.0, limit=1).flat is None


def test_numbers_are_remembered_in_a_bit_each() -> None:
    numbers = Numbers()
    for number in (0, 7, 8, 1_000, 1_000):
        numbers.add(number)
    assert [each for each in range(2_000) if each in numbers] == [0, 7, 8, 1_000]
    assert len(numbers) == 4
    assert numbers.mask().bit_length() == 1_001


def an_account(*, since: int = 0) -> SubscriptionAccount:
    """Return the account of a topic to which ten messages were sent; number 3 was not stored."""
    topic = TopicAccount("soak.topic1")
    for number in [topic.next_number() for _ in range(10)]:
        if number != 3:
            topic.acknowledged.add(number)
    return SubscriptionAccount(topic=topic, name="s", since=since)


def test_what_is_neither_delivered_nor_listed_is_missing() -> None:
    account = an_account()
    for number in (0, 1, 2, 2, 4, 5, 6):
        account.deliver(number)
    account.listed.add(7)
    assert (account.owed, account.missing(), account.again) == (9, 2, 1)


def test_a_subscription_owes_what_was_sent_while_it_was_there() -> None:
    account = an_account(since=5)
    account.end()
    account.topic.acknowledged.add(account.topic.next_number())
    assert account.owed == 5
    for number in range(5, 10):
        account.deliver(number)
    assert account.missing() == 0


def test_totals_say_what_is_lost() -> None:
    account, totals = an_account(), Totals()
    account.deliver(0)
    totals.add(account)
    assert (totals.owed, totals.delivered, totals.lost) == (9, 1, 8)
    assert "8 LOST" in str(totals)


def test_the_number_of_a_listed_message_is_read_from_its_body() -> None:
    assert number_of({"message": '{"n": 1204, "filler": "x"}'}) == 1_204


def a_request(number: int, path: str = "/") -> Received:
    body = b'{"n": %d}' % number
    return Received(method="POST", path=path, headers={}, body=body, at=0.0, at_wall=0.0)


@pytest.mark.parametrize(("mood", "delivered"), [(mood, mood == "is slow") for mood in MOODS])
def test_an_endpoint_counts_what_it_accepts(
    mood: str,
    delivered: bool,  # noqa: FBT001 - pytest passes it
) -> None:
    endpoint = Endpoint(an_account(), refuses_some=True, mood=mood)
    endpoint.answer(a_request(5))
    assert (5 in endpoint.account.delivered) == delivered
    endpoint.mood = ""
    assert endpoint.answer(a_request(5)).status == 200
    assert endpoint.answer(a_request(REFUSED_ONE_IN)).status == 400
    assert len(endpoint.account.delivered) == 1


def test_endpoints_keep_no_requests() -> None:
    endpoints, account = Endpoints(), an_account()
    endpoints.add(Endpoint(account))
    path = "/soak.topic1/s"
    assert endpoints.take(a_request(1, path)).status == 200
    endpoints.remove(account)
    assert endpoints.take(a_request(2, path)).status == 404
    assert (len(account.delivered), endpoints.requests, endpoints.received) == (1, 2, [])


@pytest.mark.parametrize(("used_s", "rate"), [(3.0, 100), (6.0, 60), (60.0, 25), (0.0, 50)])
def test_the_rate_is_what_takes_the_cores_and_changes_slowly(used_s: float, rate: float) -> None:
    assert next_rate(50.0, used_s=used_s, published=600, cores=0.6) == pytest.approx(rate)


def test_nothing_published_changes_no_rate() -> None:
    assert next_rate(50.0, used_s=9.0, published=0, cores=0.6) == 50.0


def test_records_are_counted_apart_from_the_present_state() -> None:
    values = of_tables({"audit_events": TableSize(9, 2, 5.0), "topics": TableSize(4, 1, 1.5)})
    found = {measure.name: value for (measure, _), value in values.items()}
    assert found == {
        RECORDS.name: 5.0,
        STATE.name: 1.5,
        RECORD_ROWS.name: 9,
        LIVE.name: 4,
        DEAD.name: 3,
    }


def test_all_that_was_read_is_in_the_file_and_in_the_picture(tmp_path: Path) -> None:
    plan = Plan(seconds=7_200)
    report = Report(tmp_path, plan)
    with Recorder(tmp_path / "soak.csv") as recorder:
        for at in range(0, 7_200, 60):
            recorder.add(at, {(RSS, "API"): 100.0, (FILES, "API"): at})
    report.account(Totals(owed=2, lost=2))
    report.write(recorder)
    lines = (tmp_path / "soak.csv").read_text().splitlines()
    assert lines[0] == ",".join(HEAD)
    assert len(lines) == 1 + 240
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    said = (tmp_path / "soak.txt").read_text()
    assert "API: RSS: +0 in an hour, flat" in said
    assert "WRONG: 2 acknowledged messages were lost" in said
    assert "WRONG: API: file descriptors grows by 3.6e+03 in an hour" in said
    assert report.code == 1


@pytest.mark.parametrize(("interrupted", "problems", "code"), [(False, [], 0), (True, ["x"], 130)])
def test_the_exit_code_says_how_it_ended(
    interrupted: bool,  # noqa: FBT001 - pytest passes it
    problems: list[str],
    code: int,
) -> None:
    report = Report(Path(), Plan(seconds=1.0), problems=problems, interrupted=interrupted)
    assert report.code == code

from app.domain.health.pace import RecentGain, Sample


def counted(*steps: tuple[int, int]) -> RecentGain:
    """Seconds and what was delivered a second in them, looked at every five seconds."""
    pace, at, done = RecentGain(), 0, 0
    pace.observe(Sample(0.0, 0, 0, 0))
    for seconds, rate in steps:
        for _ in range(seconds // 5):
            at, done = at + 5, done + 5 * rate
            pace.observe(Sample(float(at), done, 0, 0))
    return pace


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    pace = counted((300, 100), (60, 7))
    assert (pace.elapsed, pace.gained.delivered) == (60, 420)


def test_a_pace_is_known_after_five_seconds() -> None:
    assert not counted().is_known
    assert counted((5, 1)).is_known


def test_after_a_restart_it_knows_nothing_of_before() -> None:
    pace = counted((60, 10))
    pace.restart(Sample(61.0, 600, 0, 0))
    assert not pace.is_known
    assert pace.gained.finished == 0
    pace.observe(Sample(71.0, 650, 0, 0))
    assert (pace.elapsed, pace.gained.finished) == (10, 50)


def test_another_pace_is_seen_in_ten_seconds() -> None:
    for before, after in ((0, 20), (20, 0), (20, 60), (60, 20)):
        latest = counted((60, before), (10, after)).latest
        assert (latest.at, latest.finished) == (10, 10 * after)


def test_what_may_be_chance_is_not_another_pace() -> None:
    for before, after in ((20, 24), (20, 17), (1, 2)):
        assert counted((60, before), (10, after)).latest.at == 60


def test_reports_that_come_late_change_nothing() -> None:
    pace = counted((10, 10))
    pace.observe(Sample(7.0, 1, 0, 0))
    assert pace.gained.finished == 100

"""A broker that refused us is left alone for a while."""

from app.log.kafka.login_pause import PAUSE_MAX_S, LoginPause


def test_a_pause_doubles_with_each_refusal_up_to_a_limit() -> None:
    pause, now, lengths = LoginPause(), 100.0, []
    for _ in range(7):
        assert not pause.lasts(now)
        pause.refused(now)
        lengths.append(next(s for s in range(60) if not pause.lasts(now + s)))
        now += lengths[-1]
    assert lengths == [1, 2, 4, 8, 16, PAUSE_MAX_S, PAUSE_MAX_S]


def test_a_pause_is_short_again_once_a_broker_takes_us() -> None:
    pause = LoginPause()
    pause.refused(0.0)
    pause.refused(1.0)
    pause.taken()
    pause.refused(5.0)
    assert pause.lasts(5.9)
    assert not pause.lasts(6.0)

"""When something that failed by a defect of ours is tried again."""

from itertools import pairwise

from tests.fakes.moved_time import MovedTime
from workers.consumer.configuration_retries import RETRY_MAX_S, RETRY_MIN_S, ConfigurationRetries


class Failing:
    """Fails for ever, and knows when it was tried."""

    def __init__(self, time: MovedTime) -> None:
        self._time = time
        self.repeats = ConfigurationRetries(time, self.again)
        self.tried: list[float] = []

    def again(self, key: str) -> None:
        self.tried.append(self._time.time())
        self.repeats.failed(key)


async def test_what_fails_is_tried_again_later_and_later_and_never_given_up() -> None:
    time = MovedTime()
    failing, begun = Failing(time), time.time()
    failing.repeats.failed("s")
    time.passes(600.0)
    gaps = [later - earlier for earlier, later in pairwise([begun, *failing.tried])]
    assert gaps[:3] == [RETRY_MIN_S, 2 * RETRY_MIN_S, 4 * RETRY_MIN_S]
    assert gaps == sorted(gaps)
    assert gaps[-1] == RETRY_MAX_S


async def test_what_is_done_is_not_tried_and_its_next_failure_is_a_first_one() -> None:
    time = MovedTime()
    failing = Failing(time)
    failing.repeats.failed("s")
    time.passes(20.0)
    failing.tried.clear()
    failing.repeats.done("s")
    time.passes(600.0)
    assert not failing.tried
    failing.repeats.failed("s")
    time.passes(RETRY_MIN_S)
    assert len(failing.tried) == 1


async def test_several_failures_before_it_is_tried_again_make_one_attempt() -> None:
    time = MovedTime()
    tried: list[str] = []
    repeats = ConfigurationRetries(time, tried.append)
    for _ in range(3):
        repeats.failed("s")
    time.passes(600.0)
    assert tried == ["s"]


async def test_nothing_is_tried_after_the_end() -> None:
    time = MovedTime()
    failing = Failing(time)
    for key in ("a", "b"):
        failing.repeats.failed(key)
    failing.repeats.close()
    time.passes(600.0)
    assert not failing.tried

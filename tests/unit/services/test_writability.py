from app.services.publishing.writability import COUNTS_FOR_S, STORED_BEFORE_S, Writability


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_log_is_writable_until_a_message_is_not_stored() -> None:
    writability = Writability(Clock())
    assert writability.problem == ""
    writability.failed("full")
    assert writability.problem == "full"


def test_a_message_that_is_stored_shows_that_it_is_writable_again() -> None:
    clock = Clock()
    writability = Writability(clock)
    writability.failed("full")
    clock.now += 1
    writability.stored_at = clock.now
    assert writability.problem == ""


def test_while_others_are_stored_a_partition_without_leader_is_no_matter_of_the_whole_log() -> None:
    clock = Clock()
    writability = Writability(clock)
    writability.stored_at = clock.now
    clock.now += STORED_BEFORE_S / 2
    writability.failed("full")
    assert writability.problem == ""
    clock.now += STORED_BEFORE_S
    writability.failed("full")
    assert writability.problem == "full"


def test_a_failure_does_not_count_for_ever_as_nobody_may_publish_to_who_is_not_ready() -> None:
    clock = Clock()
    writability = Writability(clock)
    writability.failed("full")
    clock.now += COUNTS_FOR_S + 1
    assert writability.problem == ""

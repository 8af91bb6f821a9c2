"""Commits of a cursor that fail one after another."""

from datetime import UTC, datetime, timedelta

from app.domain.message import Partition
from workers.consumer.commit.failed_commits import SHOWN_AFTER, FailedCommits

NOW = datetime(2026, 11, 29, tzinfo=UTC)
HERE = Partition("t", 3)
SECOND = timedelta(seconds=1)


def failed(*, times: int) -> FailedCommits:
    commits = FailedCommits(NOW)
    for _ in range(times):
        commits.add("not now")
    return commits


def test_the_pause_doubles_with_each_failure_but_the_first_up_to_its_limit() -> None:
    pauses = [failed(times=n).pause(3 * SECOND).total_seconds() for n in range(1, 8)]
    assert pauses == [0, 0.3, 0.6, 1.2, 2.4, 3, 3]
    assert failed(times=5_000).pause(3 * SECOND) == 3 * SECOND


def test_failed_commits_are_shown_after_a_while_with_the_last_reason() -> None:
    commits = failed(times=2)
    commits.add("it has members")
    assert commits.hold(HERE, NOW + SHOWN_AFTER - SECOND) is None
    shown = str(commits.hold(HERE, NOW + SHOWN_AFTER))
    assert shown.startswith("Partition 3 waits for the log to take its commits (it has members)")

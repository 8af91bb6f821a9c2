"""What becomes of a job when Spark ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from py4j.protocol import Py4JError

from app.config import Settings
from app.domain.job import Job, JobKind, JobScope, JobState
from spark.engine import SparkEngine
from spark.errors import EngineLostError
from spark.work import WorkProgress

URL = "postgresql://nobody@127.0.0.1:1/shop"


class Context:
    """As far as the engine itself needs one."""

    def __init__(self, *, is_stopped: bool) -> None:
        self._is_stopped = is_stopped

    def setJobGroup(self, *_given: object, **_named: object) -> None:  # noqa: N802 - Spark's name
        """Name what follows."""

    def setLocalProperty(self, *_given: str) -> None:  # noqa: N802 - the same
        """Choose the pool of what follows."""

    def statusTracker(self) -> None:  # noqa: N802 - the same
        """Nothing is tracked here."""

    @property
    def _jsc(self) -> "Context":
        return self

    def sc(self) -> "Context":
        return self

    def isStopped(self) -> bool:  # noqa: N802 - the same
        return self._is_stopped


class Session:
    """A session in which all work fails, after `happens`."""

    def __init__(self, *, is_stopped: bool) -> None:
        self.sparkContext = Context(is_stopped=is_stopped)
        self.closes: SparkEngine | None = None

    def stop(self) -> None:
        """End it."""

    def __getattr__(self, name: str) -> object:
        if self.closes is not None:
            self.closes.close()
        raise Py4JError(f"no {name}")


def a_job() -> Job:
    now = datetime.now(UTC)
    return Job(
        id="1",
        kind=JobKind.UNDELIVERED_ANALYTICS,
        scope=JobScope(start=now - timedelta(days=1), end=now),
        state=JobState.RUNNING,
        requested_at=now,
    )


def run(session: Session, *, closes: bool = False) -> None:
    given: Any = session
    engine = SparkEngine(Settings(), database_url=URL, start=lambda _: given)
    session.closes = engine if closes else None
    engine.run(a_job(), WorkProgress())


def test_a_job_that_fails_in_a_spark_that_has_ended_is_anothers() -> None:
    with pytest.raises(EngineLostError):
        run(Session(is_stopped=True))


@pytest.mark.parametrize("closes", [False, True], ids=["running", "closed by us"])
def test_a_job_that_fails_in_any_other_spark_has_failed(*, closes: bool) -> None:
    with pytest.raises(Py4JError):
        run(Session(is_stopped=False), closes=closes)

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress

import pytest
import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

from app.telemetry import FRAMES_MAX, REPEATED_AFTER, SeldomRepeated, configure_logging
from tests.fakes.logging_before import logging_as_before

_log = structlog.get_logger(__name__)

DEEP = 900


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[False, True], ids=["file", "terminal"])
def stderr(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged, to a file or to a terminal; logging is as before afterwards."""
    written = Terminal() if request.param else io.StringIO()
    kafka = logging.getLogger("kafka")
    heard = kafka.level
    with logging_as_before():
        with redirect_stderr(written):
            configure_logging("info")
        yield written
    kafka.setLevel(heard)


def fail_in(depth: int, password: str) -> None:
    if depth:
        fail_in(depth - 1, password)
    message = "it broke"
    raise RuntimeError(message)


def test_a_traceback_names_where_it_broke_but_no_values(stderr: io.StringIO) -> None:
    password = "open sesame".upper()
    try:
        fail_in(2, password)
    except RuntimeError:
        logging.getLogger("some.library").exception("library_broke")
    assert "it broke" in stderr.getvalue()
    assert "fail_in" in stderr.getvalue()
    assert password not in stderr.getvalue()


def test_the_kafka_client_is_heard_only_when_everything_is_asked_for(
    stderr: io.StringIO,
) -> None:
    logging.getLogger("kafka.net.manager").error("Connection failed")
    assert not stderr.getvalue()
    configure_logging("debug")
    logger = logging.getLogger("kafka.net.manager")
    assert logger.isEnabledFor(logging.INFO)
    # There it logs whole requests, those with passwords, too.
    assert not logger.isEnabledFor(logging.DEBUG)


def test_a_deep_stack_is_cut_in_a_file(stderr: io.StringIO) -> None:
    try:
        fail_in(DEEP, "")
    except RuntimeError:
        logging.getLogger("some.library").exception("library_broke")
    if not stderr.isatty():
        (cause,) = json.loads(stderr.getvalue())["exception"]
        assert len(cause["frames"]) <= FRAMES_MAX + 1


def test_a_defect_is_logged_once_a_minute_and_the_others_are_counted() -> None:
    now = 0.0
    seldom = SeldomRepeated(lambda: now)

    def said(**fields: object) -> EventDict | None:
        try:
            fail_in(0, "")
        except RuntimeError as error:
            with suppress(structlog.DropEvent):
                return seldom(None, "error", {"event": "broke", "exc_info": error, **fields})
        return None

    assert said(message_id="1") is not None
    assert [said(message_id=str(n)) for n in range(1_000)] == [None] * 1_000
    # About something else, and without an error.
    assert said(topic="shop.orders") is not None
    assert said(job="1") is not None
    assert said(job="1") is None
    assert said(job="2") is not None
    assert seldom(None, "error", {"event": "broke"}) == {"event": "broke"}
    now = REPEATED_AFTER.total_seconds()
    again = said(message_id="2")
    assert again is not None
    assert again["repeated"] == 1_000
    now *= 2
    assert "repeated" not in (said() or {"repeated": "dropped"})


def test_what_breaks_a_thousand_times_is_written_once(stderr: io.StringIO) -> None:
    for _ in range(1_000):
        try:
            fail_in(1, "")
        except RuntimeError:
            structlog.get_logger("some.module").exception("message_broke")
    assert stderr.getvalue().count("message_broke") == 1


def test_a_logger_of_a_test_that_configured_logging_is_heard_by_the_next_test() -> None:
    handlers = list(logging.getLogger().handlers)
    with logging_as_before(), redirect_stderr(io.StringIO()) as written:
        configure_logging("info")
        _log.info("first")
    with capture_logs() as events:
        _log.info("second")
    assert "first" in written.getvalue()
    assert [each["event"] for each in events] == ["second"]
    assert logging.getLogger().handlers == handlers

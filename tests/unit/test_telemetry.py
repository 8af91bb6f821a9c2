import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr

import pytest
import structlog

from app.telemetry import FRAMES_MAX, configure_logging

DEEP = 900


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[False, True], ids=["file", "terminal"])
def stderr(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged, to a file or to a terminal; logging is as before afterwards."""
    written = Terminal() if request.param else io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    kafka = logging.getLogger("kafka")
    heard = kafka.level
    with redirect_stderr(written):
        configure_logging("info")
    yield written
    root.handlers = before
    root.setLevel(level)
    kafka.setLevel(heard)
    structlog.reset_defaults()


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

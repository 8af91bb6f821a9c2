"""A failure that lasts does not fill the log."""

import structlog
from structlog.testing import capture_logs

from app.outages import Outage
from app.telemetry import REPEATED_AFTER

MINUTE = REPEATED_AFTER.total_seconds()


def test_a_failure_is_logged_at_once_then_once_a_minute_and_when_it_has_ended() -> None:
    now = 0.0
    with capture_logs() as logged:
        outage = Outage(structlog.get_logger(), "report_failed", clock=lambda: now)
        outage.ended()
        for second in range(150):
            now = float(second)
            outage.failed(error="down")
        outage.ended()
        outage.ended()
        outage.failed(error="down again")
    failure = {"event": "report_failed", "log_level": "warning", "error": "down"}
    assert logged == [
        failure,
        {**failure, "repeated": MINUTE - 1},
        {**failure, "repeated": MINUTE - 1},
        {"event": "works_again", "log_level": "info", "after": "report_failed", "failures": 150},
        {**failure, "error": "down again"},
    ]

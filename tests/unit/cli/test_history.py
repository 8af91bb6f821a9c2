"""What `angelia subscription create` says of history that the log has no more."""

from angelia_client import History
from app.cli.commands.subscriptions import history_lines


def test_what_comes_from_the_archive_what_it_waits_for_and_what_is_gone_is_said() -> None:
    known = {"retransmission": "4f1c", "waitingFor": "No Spark runner is live", "gone": 12}
    source, waits, gone = history_lines(History.of(known))
    assert "4f1c" in source
    assert waits == "No Spark runner is live"
    assert "12 messages" in gone


def test_of_history_that_the_log_has_nothing_is_said() -> None:
    assert list(history_lines(None)) == []
    assert list(history_lines(History.of({"retransmission": "4f1c", "gone": 0})))[1:] == []

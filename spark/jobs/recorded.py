"""Waits until the recorder has stored the records of streams in the database."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from app.domain.replay.retransmission import OffsetSpan
from app.storage.spark.retransmission_requests import unrecorded
from spark.work import Work

# How long to wait for the recorder. If the recorder runs, it stores the records of the streams
# within a second.
RECORDED_WITHIN: Final = timedelta(minutes=2)
_LOOK_EVERY: Final = timedelta(milliseconds=200)


class NotKnownError(Exception):
    """It is not known what became of some messages."""


def await_recorded(work: Work, streams: Sequence[OffsetSpan]) -> None:
    """Wait until the recorder has stored these ranges of Angelia's streams in the database.

    Raises:
        NotKnownError: The recorder did not store the records in time.
    """
    until = time.monotonic() + RECORDED_WITHIN.total_seconds()
    work.progress.step("Waiting for what is recorded", done=0.05, until=0.1)
    while left := unrecorded(work.database_url, streams):
        if time.monotonic() > until:
            message = f"{left} records of undelivered messages and traces wait: is a worker there?"
            raise NotKnownError(message)
        work.progress.rest(_LOOK_EVERY)

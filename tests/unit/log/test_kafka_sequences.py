"""Numbers of batches: no two batches have one in common, and what an answer to each means."""

import pytest

from app.log.kafka.sequences import (
    EPOCH_MAX,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    SEQUENCE_MAX,
    UNANSWERED,
    BatchOutcome,
    ProducerId,
    SequenceRun,
    SequenceRuns,
    outcome_of,
)

OK, CORRUPT, TIMED_OUT, NOT_LEADER, TOO_LARGE, FEW_REPLICAS, FEW_AFTER = 0, 2, 7, 6, 10, 19, 20
OUT_OF_ORDER, DUPLICATE, OLD_EPOCH, UNKNOWN_PRODUCER, FENCED = 45, 46, 47, 59, 90


def test_each_run_has_an_epoch_of_its_own() -> None:
    runs = SequenceRuns()
    runs.give(ProducerId(7, 0))
    begun = [runs.begin() for _ in range(3)]
    assert [each and each.stamp for each in begun] == [(7, 0, 0), (7, 1, 0), (7, 2, 0)]


def test_a_run_counts_records_and_begins_anew_after_the_last_number() -> None:
    run = SequenceRun(7, 0)
    run.stored(3)
    assert run.stamp == (7, 0, 3)
    run.next = SEQUENCE_MAX
    run.stored(1)
    assert run.stamp == (7, 0, 0)


def test_an_id_whose_epochs_are_used_up_gives_no_more_runs() -> None:
    runs = SequenceRuns()
    runs.give(ProducerId(7, EPOCH_MAX - 2))
    assert runs.begin() is not None
    assert runs.begin() is None
    assert not runs.has_id


def test_an_id_that_is_dropped_is_not_the_one_after_it() -> None:
    runs = SequenceRuns()
    runs.give(ProducerId(8, 0))
    runs.drop(7)
    assert runs.has_id
    runs.drop(8)
    assert not runs.has_id


@pytest.mark.parametrize(
    ("code", "without", "first", "again"),
    [
        (OK, BatchOutcome.STORED, BatchOutcome.STORED, BatchOutcome.STORED),
        (UNANSWERED, BatchOutcome.FAILED, BatchOutcome.REPEAT, BatchOutcome.REPEAT),
        (CORRUPT, BatchOutcome.FAILED, BatchOutcome.FAILED, BatchOutcome.FAILED),
        (TIMED_OUT, BatchOutcome.FAILED, BatchOutcome.REPEAT, BatchOutcome.REPEAT),
        (FEW_AFTER, BatchOutcome.FAILED, BatchOutcome.REPEAT, BatchOutcome.REPEAT),
        (NOT_LEADER, BatchOutcome.REQUEUE, BatchOutcome.REPEAT, BatchOutcome.REPEAT),
        (FEW_REPLICAS, BatchOutcome.REQUEUE, BatchOutcome.REQUEUE, BatchOutcome.REPEAT),
        (TOO_LARGE, BatchOutcome.SPLIT, BatchOutcome.SPLIT, BatchOutcome.SPLIT),
        (INVALID_RECORD, BatchOutcome.SPLIT, BatchOutcome.SPLIT, BatchOutcome.SPLIT),
        (INVALID_TIMESTAMP, BatchOutcome.SPLIT, BatchOutcome.SPLIT, BatchOutcome.SPLIT),
        (DUPLICATE, BatchOutcome.FAILED, BatchOutcome.RENUMBER, BatchOutcome.STORED),
        (OUT_OF_ORDER, BatchOutcome.FAILED, BatchOutcome.RENUMBER, BatchOutcome.FAILED),
        (OLD_EPOCH, BatchOutcome.FAILED, BatchOutcome.RENUMBER, BatchOutcome.FAILED),
        (UNKNOWN_PRODUCER, BatchOutcome.FAILED, BatchOutcome.RENUMBER, BatchOutcome.FAILED),
        (FENCED, BatchOutcome.FAILED, BatchOutcome.RENUMBER, BatchOutcome.FAILED),
    ],
)
def test_only_what_is_certainly_not_stored_is_sent_under_another_number(
    code: int, without: BatchOutcome, first: BatchOutcome, again: BatchOutcome
) -> None:
    assert outcome_of(code, numbered=False, repeated=False) is without
    assert outcome_of(code, numbered=True, repeated=False) is first
    assert outcome_of(code, numbered=True, repeated=True) is again

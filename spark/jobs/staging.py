"""Copies chosen records into the database if only the archive has them. A worker sends them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from app.domain.job import Claim
from app.domain.replay.coverage import Stretch, Times
from app.domain.replay.retransmission import ARCHIVED_BYTES_MAX
from app.storage.spark.analysis_parts import RECORDS as TABLE
from app.storage.spark.retransmission_requests import Totals, bytes_waiting, staged
from app.storage.spark.retransmission_rows import chosen_positions
from spark.archives import archived_messages
from spark.batches import Batches, batch_of
from spark.jobs.reached import Reached
from spark.schemas import RECORDS
from spark.sinks import spread_to_database
from spark.work import Work

# The progress of the job (from 0 to 1) when all messages are chosen, and copying from the archive
# starts.
CHOSEN_SHARE: Final = 0.5
_RECORDS: Final = to_arrow_schema(RECORDS, timezone="UTC")


class NoRoomError(Exception):
    """The archived messages that wait to be sent would have more bytes than allowed."""


class ArchiveChangedError(Exception):
    """Some of the chosen messages were not found when the archive was read again."""


def stage(session: SparkSession, work: Work, read: Reached, *, total: Totals, times: Times) -> None:
    """Store in the database the chosen records that only the archive has.

    Raises:
        NoRoomError: Too many archived records would wait to be sent.
        ArchiveChangedError: The archive no longer has some of the records.
        WorkStoppedError: The work was stopped.
    """
    if not total.archived or work.claim is None:
        return
    _require_room(work, total)
    name = f"Fetching {total.archived} of them from the archive"
    work.progress.step(name, done=CHOSEN_SHARE, until=0.95)
    url, claim = work.database_url, work.claim
    records = archived_messages(session, read.folders, spans=read.archived, times=times)
    kept = records.mapInArrow(_keeping(url, claim), RECORDS)
    spread_to_database(kept, TABLE, url=url, claim=claim)
    if (found := staged(url, claim)) != total.archived:
        message = f"Of {total.archived} messages chosen in the archive {found} were found again"
        raise ArchiveChangedError(message)


def _require_room(work: Work, total: Totals) -> None:
    waiting = bytes_waiting(work.database_url)
    if total.archived_size + waiting > ARCHIVED_BYTES_MAX:
        message = (
            f"{total.archived_size} bytes are to be sent again from the archive, and {waiting}"
            f" wait already: at most {ARCHIVED_BYTES_MAX} may. Ask for less at a time"
        )
        raise NoRoomError(message)


def _keeping(url: str, claim: Claim) -> Callable[[Batches], Batches]:
    """Return a function that keeps only the chosen messages of the Arrow batches it gets.

    The function reads from the database which messages the job has chosen.
    """

    def keep(batches: Batches) -> Batches:
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            rows = list(zip(*columns, strict=True))
            positions = chosen_positions(url, claim, _stretches(rows))
            yield batch_of([_record(row) for row in rows if row[:2] in positions], _RECORDS)

    return keep


def _stretches(rows: Iterable[Sequence[Any]]) -> Mapping[int, Stretch]:
    found: dict[int, Stretch] = {}
    for index, offset, *_ in rows:
        start, end = found.get(index, (offset, offset + 1))
        found[index] = Stretch(min(start, offset), max(end, offset + 1))
    return found


def _record(row: Sequence[Any]) -> tuple[Any, ...]:
    index, offset, timestamp_ms, key, value, headers, _ = row
    names = [each["key"].encode() for each in headers or ()]
    values = [each["value"] or b"" for each in headers or ()]
    return (index, offset, timestamp_ms, len(value or b""), key, value, names, values)

"""Descriptions of a topic's archive in responses."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import Field

from app.api.bodies.base import Schema
from app.domain.insight.archive import Archive, ArchivedFolder

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class ArchivedFolderRead(Schema):
    """A folder of Parquet files, for Spark or any other reader."""

    path: str
    archived_at: str
    messages: int
    size: int = Field(description="bytes of the messages, before they are packed")
    from_: str = Field(alias="from", description="time of its first message")
    to: str = Field(description="time of its last message")


class ArchivedPartitionRead(Schema):
    """How far a partition is archived."""

    partition: int
    offset: int = Field(description="the first that is not archived")


class ArchiveRead(Schema):
    """The archive of a topic."""

    messages: int
    size: int
    partitions: Sequence[ArchivedPartitionRead] = Field(description="those that were archived")
    folders: Sequence[ArchivedFolderRead] = Field(description="the newest 1,000")


def archive_read(archive: Archive) -> ArchiveRead:
    """Return the response for `archive`."""
    return ArchiveRead(
        messages=archive.messages,
        size=archive.size,
        partitions=[
            ArchivedPartitionRead(partition=index, offset=offset)
            for index, offset in archive.until.items()
        ],
        folders=[_folder_read(each) for each in archive.folders],
    )


def _folder_read(folder: ArchivedFolder) -> ArchivedFolderRead:
    # The model gets one mapping, because its field `from` cannot be a keyword argument in Python.
    return ArchivedFolderRead.model_validate(
        {
            "path": folder.path,
            "archivedAt": folder.archived_at.isoformat(),
            "messages": folder.messages,
            "size": folder.size,
            "from": _time(folder.first_ms),
            "to": _time(folder.last_ms),
        }
    )


def _time(ms: int) -> str:
    """Return the time as text; a time out of range becomes the last possible one."""
    last = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MS
    return (_EPOCH + min(max(ms, 0), last) * _MS).isoformat()

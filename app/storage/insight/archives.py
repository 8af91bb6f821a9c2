"""Stores which files of the archive are valid, and which offsets the files have."""

from datetime import datetime
from typing import Final

import structlog
from sqlalchemy import func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.topic import Topic
from app.domain.insight.archive import Archive, ArchivedFolder
from app.domain.job import Claim, JobKind
from app.storage.insight.jobs import OPEN
from app.storage.locks import hold
from app.storage.tables import (
    KEPT,
    ArchiveFolderRow,
    ArchivePieceRow,
    ArchivePositionRow,
    JobRow,
    TopicRow,
)

_LOCK: Final = "angelia archive"

_log = structlog.get_logger(__name__)


class ArchiveRepository:
    """Stores the folders of the archive, and up to which positions topics are archived.

    Each change holds a lock until its transaction ends, so that changes come one after the other.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def keep(self, claim: Claim) -> None:
        """Mark the files that this claim has written as valid.

        Files that other claims of the job have written stay invalid. If another job has meanwhile
        archived a part of a folder's offsets, this folder stays invalid too.
        """
        row = ArchiveFolderRow
        written = select(row).where(row.job_id == claim.job_id, row.attempt == claim.attempt)
        folders = list(await self._session.scalars(written))
        if not folders:
            return
        await hold(self._session, _LOCK)
        for folder in folders:
            if await self._is_overtaken(folder):
                _log.warning("archive_overtaken", topic=folder.topic, job=claim.job_id)
            else:
                await self._keep(folder)

    async def of(self, topic: Topic, *, limit: int) -> Archive:
        """Return the archive of a topic, with at most `limit` of the newest folders."""
        row, piece = ArchiveFolderRow, ArchivePieceRow
        kept = (
            row.state == KEPT,
            row.topic == topic.name,
            row.topic_created_at == topic.created_at,
            tuple_(piece.job_id, piece.attempt, piece.topic)
            == tuple_(row.job_id, row.attempt, row.topic),
        )
        numbers = (func.sum(piece.messages), func.sum(piece.size))
        times = (func.min(piece.first_ms), func.max(piece.last_ms))
        newest = (
            select(row.path, row.begun_at, *numbers, *times)
            .where(*kept)
            .group_by(row.path, row.begun_at)
            .order_by(row.begun_at.desc())
            .limit(limit)
        )
        folders = [
            ArchivedFolder(
                path=path,
                archived_at=begun_at,
                messages=int(messages),
                size=int(size),
                first_ms=first_ms,
                last_ms=last_ms,
            )
            for path, begun_at, messages, size, first_ms, last_ms in await self._session.execute(
                newest
            )
        ]
        total = (await self._session.execute(select(*numbers).where(*kept))).one()
        return Archive(
            folders=tuple(folders),
            messages=int(total[0] or 0),
            size=int(total[1] or 0),
            until=await self._until(topic.name, topic.created_at),
        )

    async def last_requested(self) -> datetime | None:
        """Return when archiving all topics was last requested.

        Other transactions that call this method wait until this transaction ends.
        """
        await hold(self._session, _LOCK)
        query = select(func.max(JobRow.requested_at)).where(*_OF_ALL)
        return await self._session.scalar(query)

    async def is_requested(self) -> bool:
        """Return whether a job that archives all topics is waiting or running."""
        query = select(JobRow.id).where(*_OF_ALL, OPEN).limit(1)
        return await self._session.scalar(query) is not None

    async def is_wanted(self) -> bool:
        """Return whether there are topics to archive, or files to delete."""
        enabled = {"offline_storage": {"enabled": True}}
        topics = select(TopicRow.name).where(TopicRow.settings.contains(enabled)).limit(1)
        folders = select(ArchiveFolderRow.path).limit(1)
        if await self._session.scalar(topics) is not None:
            return True
        return await self._session.scalar(folders) is not None

    async def _is_overtaken(self, folder: ArchiveFolderRow) -> bool:
        until = await self._until(folder.topic, folder.topic_created_at)
        first = await self._first_written(folder)
        return any(
            until.get(int(index), 0) > min(start, first.get(int(index), start))
            for index, (start, _) in folder.spans.items()
        )

    async def _first_written(self, folder: ArchiveFolderRow) -> dict[int, int]:
        """Return, for each partition, the offset from which on the folder has all messages.

        The folder may also have messages before this offset, with gaps. These messages are not
        valid.
        """
        row = ArchivePieceRow
        same = (
            row.job_id == folder.job_id,
            row.attempt == folder.attempt,
            row.topic == folder.topic,
        )
        query = select(row.partition, func.min(row.start)).where(*same).group_by(row.partition)
        return {each[0]: each[1] for each in await self._session.execute(query)}

    async def _until(self, topic: str, created_at: datetime | None) -> dict[int, int]:
        row = ArchivePositionRow
        query = select(row.partition, row.next_offset).where(
            row.topic == topic, row.topic_created_at == created_at
        )
        found = await self._session.execute(query.order_by(row.partition))
        return {each[0]: each[1] for each in found}

    async def _keep(self, folder: ArchiveFolderRow) -> None:
        row = ArchiveFolderRow
        same = (
            row.job_id == folder.job_id,
            row.attempt == folder.attempt,
            row.topic == folder.topic,
        )
        await self._session.execute(update(row).where(*same).values(state=KEPT))
        moved = insert(ArchivePositionRow).values(
            [
                {
                    "topic": folder.topic,
                    "topic_created_at": folder.topic_created_at,
                    "partition": int(index),
                    "next_offset": end,
                }
                for index, (_, end) in folder.spans.items()
            ]
        )
        key = ["topic", "topic_created_at", "partition"]
        new = {"next_offset": moved.excluded.next_offset}
        await self._session.execute(moved.on_conflict_do_update(index_elements=key, set_=new))


_OF_ALL: Final = (
    JobRow.kind == JobKind.ARCHIVE.value,
    JobRow.scope["topic"].astext.is_(None),
)

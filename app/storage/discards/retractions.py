"""Stores retractions: deletes retracted discards, and ignores those that are recorded later."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ARRAY, BigInteger, Row, any_, bindparam, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.commit import decode_runs, encode_runs
from app.domain.discards.retractions import Retraction
from app.domain.discards.undelivered import Undelivered
from app.storage.discards.superseded import SupersededDiscards
from app.storage.tables import RetractionRow, UndeliveredRow
from app.storage.texts import storable

_OF_EPOCHS: Final = select(*RetractionRow.__table__.columns).where(
    RetractionRow.subscription_id.in_(bindparam("ids", expanding=True)),
    RetractionRow.producer_epoch.in_(bindparam("epochs", expanding=True)),
)


class RetractionRepository:
    """The last recorded retraction for each subscription, partition and producer epoch."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def record(self, retraction: Retraction) -> None:
        """Store the retraction, and delete the discards that it retracts."""
        key = {
            "subscription_id": storable(retraction.subscription_id),
            "partition": retraction.partition,
            "producer_epoch": storable(retraction.producer_epoch),
        }
        await self._keep(key, retraction)
        row = UndeliveredRow
        of_epoch = select(row.id, row.offset, row.superseded_by).filter_by(**key)
        found = await self._session.execute(of_epoch.where(row.offset >= retraction.offset))
        covered = {row_id: by for row_id, offset, by in found if retraction.covers_offset(offset)}
        if covered:
            # If the later discard of a message that was sent again is retracted, list its earlier
            # discard again.
            await SupersededDiscards(self._session).retract(covered)
            await self._session.execute(
                delete(row)
                .where(row.id == any_(literal(list(covered), ARRAY(BigInteger))))
                .execution_options(synchronize_session=False)
            )

    async def counting(self, discards: Sequence[Undelivered]) -> list[Undelivered]:
        """Return only the discards that are not retracted."""
        epochs = {each.producer_epoch for each in discards} - {""}
        if not epochs:
            return list(discards)
        wanted = {"ids": list({each.subscription_id for each in discards}), "epochs": list(epochs)}
        found = await self._session.execute(_OF_EPOCHS, wanted)
        retractions = [_retraction(each) for each in found]
        return [each for each in discards if not any(by.covers(each) for by in retractions)]

    async def drop_older(self, kept: timedelta) -> None:
        """Delete retractions that were recorded more than `kept` ago."""
        row = RetractionRow
        await self._session.execute(delete(row).where(row.recorded_at < func.now() - kept))

    async def _keep(self, key: Mapping[str, Any], retraction: Retraction) -> None:
        values = {
            "offset": retraction.offset,
            "finished": encode_runs(retraction.offset, retraction.finished),
            "recorded_at": func.now(),
        }
        kept = insert(RetractionRow).values(**key, **values)
        await self._session.execute(
            kept.on_conflict_do_update(index_elements=list(key), set_=values)
        )


def _retraction(row: Row[Any]) -> Retraction:
    return Retraction(
        subscription_id=row.subscription_id,
        partition=row.partition,
        producer_epoch=row.producer_epoch,
        offset=row.offset,
        finished=decode_runs(row.offset, row.finished),
    )

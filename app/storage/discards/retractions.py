"""What of the undelivered is void: taken off the list, and kept off it when it comes late."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Row, any_, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.commit import decode_runs, encode_runs
from app.domain.discards.retractions import Void
from app.domain.discards.undelivered import Undelivered
from app.storage.discards.superseded import SecondEnds
from app.storage.tables import UndeliveredRow, UndeliveredVoidRow
from app.storage.texts import storable


class VoidRepository:
    """The voids, by subscription, partition and life: of each the last that was recorded."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def record(self, void: Void) -> None:
        """Keep it, and drop the discards that it covers."""
        place = {
            "subscription_id": storable(void.subscription_id),
            "partition": void.partition,
            "life": storable(void.life),
        }
        await self._keep(place, void)
        row = UndeliveredRow
        of_life = select(row.id, row.offset, row.outdated_by).filter_by(**place)
        found = await self._session.execute(of_life.where(row.offset >= void.offset))
        covered = {row_id: by for row_id, offset, by in found if void.covers_offset(offset)}
        if covered:
            # Of a message that was sent again, the discard of before is the last one now.
            await SecondEnds(self._session).void(covered)
            await self._session.execute(
                delete(row)
                .where(row.id == any_(literal(list(covered), ARRAY(BigInteger))))
                .execution_options(synchronize_session=False)
            )

    async def counting(self, discards: Sequence[Undelivered]) -> list[Undelivered]:
        """Those of `discards` that no void covers."""
        lives = {each.life for each in discards} - {""}
        if not lives:
            return list(discards)
        row = UndeliveredVoidRow
        query = select(*row.__table__.columns).where(
            row.subscription_id.in_({each.subscription_id for each in discards}),
            row.life.in_(lives),
        )
        voids = [_void(each) for each in await self._session.execute(query)]
        return [each for each in discards if not any(void.covers(each) for void in voids)]

    async def drop_older(self, kept: timedelta) -> None:
        """Drop those that were recorded before that time."""
        row = UndeliveredVoidRow
        await self._session.execute(delete(row).where(row.recorded_at < func.now() - kept))

    async def _keep(self, place: Mapping[str, Any], void: Void) -> None:
        told = {
            "offset": void.offset,
            "finished": encode_runs(void.offset, void.finished),
            "recorded_at": func.now(),
        }
        kept = insert(UndeliveredVoidRow).values(**place, **told)
        await self._session.execute(
            kept.on_conflict_do_update(index_elements=list(place), set_=told)
        )


def _void(row: Row[Any]) -> Void:
    return Void(
        subscription_id=row.subscription_id,
        partition=row.partition,
        life=row.life,
        offset=row.offset,
        finished=decode_runs(row.offset, row.finished),
    )

"""Stores the claims of requests that change the log.

The database's clock decides when a claim ends.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.catalogue.log_claims import Intent, LogClaim
from app.storage.runtime.leases import LeaseRepository
from app.storage.tables import LeaseRow as Row

_PREFIX: Final = "log/"


class LogClaimRepository:
    """The holders of claims, and the changes of the log that have begun and are not finished."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._leases = LeaseRepository(session)

    async def take(self, claim: LogClaim, length: timedelta) -> LogClaim | None:
        """Take the claim for `length`, with the unfinished change of an earlier claim, if any.

        Return None if another request holds the claim, or if a deletion must be finished first.
        """
        name = _PREFIX + claim.subject
        # First try to insert a new row. A row that does not exist cannot be locked, so another
        # request might create it a moment later.
        if await self._leases.take_new(name, claim.holder, length):
            return claim
        there = await self._stored(claim.subject)
        if there is None:
            return None  # return None: another request has just released the claim
        if there.intent is Intent.DELETE and claim.intent is not Intent.DELETE:
            return None
        claim = replace(claim, left=there.intent)
        return claim if await self._leases.take(name, claim.holder, length) else None

    async def take_over(self, subject: str, token: str, length: timedelta) -> LogClaim | None:
        """Take over an unfinished change of an earlier request; return None if there is none.

        `subject` is the topic, or the consumer group of the log, that is changed.
        """
        there = await self._stored(subject)
        if there is None:
            return None
        claim = replace(there, token=token)
        taken = await self._leases.take(_PREFIX + subject, claim.holder, length)
        return claim if taken else None

    async def begin(self, claim: LogClaim) -> LogClaim | None:
        """Record that the claimed change has begun; return None if the claim was lost."""
        begun = replace(claim, begun=True)
        mine = (Row.name == _PREFIX + claim.subject) & (Row.holder == claim.holder)
        statement = update(Row).where(mine).values(holder=begun.holder).returning(Row.name)
        return begun if await self._session.scalar(statement) else None

    async def give_up(self, claim: LogClaim) -> None:
        """Release the claim, because its change is complete, or did not begin."""
        await self._leases.give_up(_PREFIX + claim.subject, claim.holder)

    async def abandon(self, claim: LogClaim, owed: Intent) -> None:
        """End the claim, although its change is not finished.

        The log may have only a part of the change `owed`. The next holder of the claim must finish
        this change.
        """
        mine = (Row.name == _PREFIX + claim.subject) & (Row.holder == claim.holder)
        to_end = replace(claim, intent=owed, begun=True)
        as_owed = {"holder": to_end.holder, "until": func.clock_timestamp()}
        await self._session.execute(update(Row).where(mine).values(as_owed))

    async def left(self, *, at_most: int) -> Sequence[str]:
        """Return the topics and consumer groups with unfinished changes, the oldest first."""
        found = select(Row.name).where(Row.name.startswith(_PREFIX), _is_over())
        names = await self._session.scalars(found.order_by(Row.until).limit(at_most))
        return [name.removeprefix(_PREFIX) for name in names]

    async def _stored(self, subject: str) -> LogClaim | None:
        holder = await self._session.scalar(
            select(Row.holder).where(Row.name == _PREFIX + subject).with_for_update()
        )
        return None if holder is None else LogClaim.of(subject, holder)


def _is_over() -> ColumnElement[bool]:
    over: ColumnElement[bool] = Row.until < func.clock_timestamp()
    return over

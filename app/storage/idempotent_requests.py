"""Stores requests with an Idempotency-Key: claimed, answered, and deleted after some time."""

from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.domain.errors import IdempotencyKeyReusedError, RequestUnderWayError
from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.storage.tables import IdempotentRequestRow as Row

# How long a response is kept for repeated requests.
KEPT: Final = timedelta(hours=24)
# How long a claim is valid. A process that has not answered by then is dead, because no request
# takes longer.
CLAIMED_FOR: Final = timedelta(seconds=60)


class IdempotentRequestRepository:
    """Stores requests, at most one for each caller and key."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def claim(self, request: KeyedRequest) -> StoredAnswer | None:
        """Claim the request, or return its stored response.

        None means that the caller must run the request.

        Raises:
            IdempotencyKeyReusedError: Another request used the key.
            RequestUnderWayError: The same request is running.
        """
        await self._session.execute(delete(Row).where(_is(request), _is_over()))
        taken = insert(Row).values(
            caller=request.caller, key=request.key, request=request.digest, claim=request.claim
        )
        if await self._session.scalar(taken.on_conflict_do_nothing().returning(Row.claim)):
            return None
        row = await self._session.scalar(select(Row).where(_is(request)))
        if row is None:  # The claim ended just now: let the client retry.
            raise _under_way()
        if row.request != request.digest:
            raise IdempotencyKeyReusedError("Idempotency-Key was used for another request")
        if row.status is None:
            raise _under_way()
        return StoredAnswer(status=row.status, headers=row.headers, body=row.body or b"")

    async def answered(self, request: KeyedRequest, answer: StoredAnswer) -> None:
        """Store the response, unless the claim was lost."""
        kept = update(Row).where(_is(request), Row.claim == request.claim)
        await self._session.execute(
            kept.values(status=answer.status, headers=dict(answer.headers), body=answer.body)
        )

    async def give_up(self, request: KeyedRequest) -> None:
        """Release the claim, so that the request can be sent again."""
        await self._session.execute(delete(Row).where(_is(request), Row.claim == request.claim))

    async def drop_old(self) -> None:
        """Delete old responses, and old requests without a response."""
        await self._session.execute(delete(Row).where(_is_over()))


def _is(request: KeyedRequest) -> ColumnElement[bool]:
    return (Row.caller == request.caller) & (Row.key == request.key)


def _is_over() -> ColumnElement[bool]:
    now: Any = func.clock_timestamp()
    unanswered = Row.status.is_(None) & (Row.claimed_at < now - CLAIMED_FOR)
    return or_(unanswered, Row.claimed_at < now - KEPT)


def _under_way() -> RequestUnderWayError:
    return RequestUnderWayError("A request with this Idempotency-Key is being answered")

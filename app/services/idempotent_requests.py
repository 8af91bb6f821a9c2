"""Requests that create something, done once however often they are sent under one key."""

from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.storage.database import Database
from app.storage.idempotent_requests import IdempotentRequestRepository


class IdempotentRequests:
    """Claims requests and keeps what they were answered; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, request: KeyedRequest) -> StoredAnswer | None:
        """The answer that it got before; None: answer it, and say so, or give it up.

        IdempotencyKeyReusedError, RequestUnderWayError. A claim of a process that died is free
        again after a minute.
        """
        async with self._database.transaction() as session:
            return await IdempotentRequestRepository(session).claim(request)

    async def answered(self, request: KeyedRequest, answer: StoredAnswer) -> None:
        """Give this answer, for a day, to whoever sends the request again."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).answered(request, answer)

    async def give_up(self, request: KeyedRequest) -> None:
        """Nothing came of it: it may be sent again."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).give_up(request)

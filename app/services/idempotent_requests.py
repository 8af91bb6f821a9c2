"""Requests that create something, which run once however often they are sent with one key."""

from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.storage.database import Database
from app.storage.idempotent_requests import IdempotentRequestRepository


class IdempotentRequests:
    """Claims requests and stores their responses; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, request: KeyedRequest) -> StoredAnswer | None:
        """Return the stored response.

        None if the request must run, and then be answered or given up.

        The claim of a dead process expires after a minute.

        Raises:
            IdempotencyKeyReusedError: Another request used the key.
            RequestUnderWayError: The same request is running.
        """
        async with self._database.transaction() as session:
            return await IdempotentRequestRepository(session).claim(request)

    async def answered(self, request: KeyedRequest, answer: StoredAnswer) -> None:
        """Store this response for a day, for repetitions of the request."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).answered(request, answer)

    async def give_up(self, request: KeyedRequest) -> None:
        """Release the claim of a failed request: it may be sent again."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).give_up(request)

"""Idempotency keys: a creating request that is repeated with the same key runs only once."""

from app.domain.idempotency import KeyedRequest, StoredAnswer
from app.storage.database import Database
from app.storage.idempotent_requests import IdempotentRequestRepository


class IdempotentRequests:
    """Claims requests, and stores their responses; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, request: KeyedRequest) -> StoredAnswer | None:
        """Claim the request, or return the response that is stored for the request.

        The result is None if the caller has to run the request. After that, the caller calls
        `answered` or `give_up`. If a process dies, its claim expires after a minute.

        Raises:
            IdempotencyKeyReusedError: A different request used the same key before.
            RequestUnderWayError: The same request is running now.
        """
        async with self._database.transaction() as session:
            return await IdempotentRequestRepository(session).claim(request)

    async def answered(self, request: KeyedRequest, answer: StoredAnswer) -> None:
        """Store this response for a day, in case the request is repeated."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).answered(request, answer)

    async def give_up(self, request: KeyedRequest) -> None:
        """Release the claim of a failed request, so that it may be sent again."""
        async with self._database.transaction() as session:
            await IdempotentRequestRepository(session).give_up(request)

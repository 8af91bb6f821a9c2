"""Claims: only the holder of a claim may change its subject, such as a topic, in the log.

A change of the log often belongs to a change of the database. While the log is changed, no lock in
the database is held.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import uuid4

from app.domain.catalogue.log_claims import Intent, LogClaim
from app.domain.errors import LogUnavailableError, StorageUnavailableError
from app.storage.database import Database, Session
from app.storage.runtime.log_claims import LogClaimRepository

# The time limit for all calls to the log that are made while a request holds a claim.
LOG_WITHIN: Final = timedelta(seconds=25)
# How long a claim is valid. This is longer than the time limit for the calls to the log, so the
# claim cannot expire during a call.
CLAIMED_FOR: Final = timedelta(seconds=30)
# How long a request waits for a claim that another request holds.
WAIT_MAX: Final = timedelta(seconds=10)
# How often a request that waits for a claim checks whether the claim is free.
_LOOK_EVERY: Final = timedelta(milliseconds=50)
_LEFT_MAX: Final = 100


@dataclass(slots=True)
class Claimed:
    """A claim that this request holds.

    `owed` is a change that may not be complete in the log; None if the log matches the database.
    It can also be a change that an earlier request left incomplete. Then `owed` becomes None when
    this request has made the log match the database.
    """

    claim: LogClaim
    owed: Intent | None
    begun: LogClaim | None = None
    given_up: bool = False

    async def begin_in(self, session: Session) -> None:
        """Record in the transaction of `session` that the change of the log begins.

        The caller calls `begin` after the commit of this transaction. If the process does not learn
        whether the commit succeeded, there are two cases. If it failed, the claim is released. If
        it succeeded, the claim stays until it expires, and then another request finishes the
        change.

        Raises:
            LogUnavailableError: Another request has the claim now.
        """
        self.begun = await LogClaimRepository(session).begin(self.claim)
        if self.begun is None:
            raise LogUnavailableError(f"Another request changes {self.claim.subject} in the log")

    def begin(self) -> None:
        """Note in `owed` that the log may differ from the database from now on."""
        self.claim = self.begun or self.claim
        self.owed = self.claim.intent

    def end(self) -> None:
        """Note in `owed` that the log matches the database again."""
        self.owed = None

    async def give_up(self, session: Session) -> None:
        """Release the claim in the transaction of `session`, which also stores the change."""
        await LogClaimRepository(session).give_up(self.claim)
        self.given_up = True


class LogClaims:
    """Lets only one request at a time change the same subject (such as one topic) in the log.

    The calls to the log are made between two transactions. The first transaction claims the
    subject, and the second transaction records the result. Only requests for the same subject wait
    for the log.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def claimed(self, subject: str, intent: Intent) -> AsyncIterator[Claimed]:
        """Hold a claim on the subject inside the block.

        If the change of the log may be incomplete at the end of the block, another request finishes
        the change. This also happens if the process dies inside the block.

        Raises:
            LogUnavailableError: Another request held the claim for too long, or the log did not
                answer in time.
        """
        claim = await self._take(LogClaim(subject=subject, intent=intent, token=uuid4().hex))
        async with self._held(Claimed(claim, owed=claim.left)) as held:
            yield held

    @asynccontextmanager
    async def taken_over(self, subject: str) -> AsyncIterator[Intent | None]:
        """Yield an unfinished change of the subject, which the block then finishes.

        None is yielded if there is no unfinished change. If the block raises an error, the change
        stays unfinished, and can be taken over again.
        """
        async with self._database.transaction() as session:
            claims = LogClaimRepository(session)
            claim = await claims.take_over(subject, uuid4().hex, CLAIMED_FOR)
        if claim is None:
            yield None
            return
        async with self._held(Claimed(claim, owed=claim.intent)) as held:
            yield claim.intent
            held.end()

    async def left(self) -> Sequence[str]:
        """Return the subjects with unfinished changes."""
        async with self._database.transaction() as session:
            return await LogClaimRepository(session).left(at_most=_LEFT_MAX)

    @asynccontextmanager
    async def _held(self, held: Claimed) -> AsyncIterator[Claimed]:
        try:
            async with asyncio.timeout(LOG_WITHIN.total_seconds()):
                yield held
        except TimeoutError as error:
            message = f"The log did not answer within {LOG_WITHIN.total_seconds():g} s"
            raise LogUnavailableError(message) from error
        finally:
            await self._let_go(held)

    async def _take(self, claim: LogClaim) -> LogClaim:
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_MAX.total_seconds()
        while (taken := await self._taken(claim)) is None:
            if loop.time() > end:
                message = f"Another request changes {claim.subject} in the log, and has not ended"
                raise LogUnavailableError(message)
            await asyncio.sleep(_LOOK_EVERY.total_seconds())
        return taken

    async def _taken(self, claim: LogClaim) -> LogClaim | None:
        async with self._database.transaction() as session:
            return await LogClaimRepository(session).take(claim, CLAIMED_FOR)

    async def _let_go(self, held: Claimed) -> None:
        if held.given_up:
            return
        # Ignore the error if the database is down. The claim is not released then, but it expires.
        with suppress(StorageUnavailableError):
            async with self._database.transaction() as session:
                claims = LogClaimRepository(session)
                if held.owed is None:
                    await claims.give_up(held.claim)
                else:
                    await claims.abandon(held.claim, held.owed)

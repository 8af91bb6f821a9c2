"""Changes of the log that belong to a change of the database, without a lock held meanwhile."""

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

# What the log is asked within a claim ends before the claim does.
LOG_WITHIN: Final = timedelta(seconds=25)
CLAIMED_FOR: Final = timedelta(seconds=30)
# Whoever wants the same waits so long, and looks so often whether it is free.
WAIT_MAX: Final = timedelta(seconds=10)
_LOOK_EVERY: Final = timedelta(milliseconds=50)
_LEFT_MAX: Final = 100


@dataclass(slots=True)
class Claimed:
    """A claim that is held. What is `owed` may be half done in the log; None: nothing is.

    What an earlier claimant left stays owed until this one has made the log agree with the
    database: a request that is refused has ended nothing.
    """

    claim: LogClaim
    owed: Intent | None
    begun: LogClaim | None = None
    given_up: bool = False

    async def begin_in(self, session: Session) -> None:
        """Have the transaction say that it begins; `begin` when that is committed.

        When nobody knows whether it was committed, the claim is given up if it was not, and else
        stays until it is too old: then what has begun is ended.

        LogUnavailableError: another has the subject by now.
        """
        self.begun = await LogClaimRepository(session).begin(self.claim)
        if self.begun is None:
            raise LogUnavailableError(f"Another request changes {self.claim.subject} in the log")

    def begin(self) -> None:
        """From here on the log may have what the database has not."""
        self.claim = self.begun or self.claim
        self.owed = self.claim.intent

    def end(self) -> None:
        """The log has what the database has."""
        self.owed = None

    async def give_up(self, session: Session) -> None:
        """Give it up in the transaction that says what came of it."""
        await LogClaimRepository(session).give_up(self.claim)
        self.given_up = True


class LogClaims:
    """Lets one request at a time change what the log has of a subject.

    What the log is asked for stands between two transactions: the first one claims the subject, the
    second one writes what came of it. Nobody but those who want the same subject waits for the log.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def claimed(self, subject: str, intent: Intent) -> AsyncIterator[Claimed]:
        """Have the subject inside the block; LogUnavailableError.

        When something is still `owed` as the block ends, or the process dies within, it is left to
        be taken over.
        """
        claim = await self._take(LogClaim(subject=subject, intent=intent, token=uuid4().hex))
        async with self._held(Claimed(claim, owed=claim.left)) as held:
            yield held

    @asynccontextmanager
    async def taken_over(self, subject: str) -> AsyncIterator[Intent | None]:
        """What was begun with the subject and not ended, to be ended in the block; None: nothing.

        When the block raises, it is left to be taken over again.
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
        """The subjects of what was begun and not ended."""
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
        # A database that is down says the same later: the claim grows too old.
        with suppress(StorageUnavailableError):
            async with self._database.transaction() as session:
                claims = LogClaimRepository(session)
                if held.owed is None:
                    await claims.give_up(held.claim)
                else:
                    await claims.abandon(held.claim, held.owed)

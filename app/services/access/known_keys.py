"""All API keys in memory: finds the caller of a request without a database query."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from time import monotonic
from typing import Final

import structlog

from app.domain.access.keys import ID_LENGTH, TOKEN_PREFIX, ApiKey, Caller, Mode, is_token
from app.domain.catalogue.changes import LastChange
from app.domain.errors import KeyRefusedError, StorageUnavailableError
from app.outages import Outage
from app.storage.access.keys import AccessRepository, AccessState
from app.storage.database import Database

_log = structlog.get_logger(__name__)

# The shortest time between two database queries for unknown keys. These queries are needed, because
# an unknown key may be new.
ASK_EVERY: Final = timedelta(seconds=1)

# How long the refusal of a wrong key is delayed. Each connection handles one request at a time, so
# the delay limits how fast a client can guess keys. Many wrong keys do not slow down other callers.
REFUSED_AFTER: Final = timedelta(milliseconds=50)
# The maximum number of requests with wrong keys whose refusal is delayed. Further requests are
# refused immediately.
HELD_BACK_MAX: Final = 1_000

_ID: Final = slice(len(TOKEN_PREFIX), len(TOKEN_PREFIX) + ID_LENGTH)
_NO_DIGEST: Final = bytes(32)

Load = Callable[[LastChange | None], Awaitable[AccessState | None]]
Now = Callable[[], datetime]
Pause = Callable[[float], Awaitable[None]]


def _now() -> datetime:
    return datetime.now(UTC)


class KnownKeys:
    """The API keys and the mode of the service, as last read from the database.

    A known key is found without waiting, even if the database is down. Any number of wrong keys
    causes at most one small database query per second. Notices tell this process soon about
    revocations and new keys. If a notice is lost, polling finds the change.
    """

    def __init__(
        self,
        load: Load,
        *,
        now: Now = _now,
        clock: Callable[[], float] = monotonic,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._pause = pause
        self._held_back = 0
        self._load = load
        self._now = now
        self._clock = clock
        self._outage = Outage(_log, "keys_not_refreshed")
        self._keys: dict[bytes, tuple[ApiKey, Caller]] = {}
        self._last: LastChange | None = None
        self._read_at = float("-inf")
        self._asking = asyncio.Lock()
        self._used: set[str] = set()
        self._refused = 0
        self.mode = Mode.READ_WRITE

    def known(self, token: bytes) -> Caller | None:
        """Return the caller, if the key is known to this process and valid now."""
        found = self._keys.get(token[_ID])
        # Compare the token's hash even if no key has the id in the token. So the response time does
        # not show which ids exist.
        same = compare_digest(sha256(token).digest(), found[0].digest if found else _NO_DIGEST)
        if found is None or not same:
            return None
        key, caller = found
        if key.expires_at is not None and not key.is_live(self._now()):
            return None
        self._used.add(key.id)
        return caller

    async def caller(self, token: bytes) -> Caller:
        """Return the caller.

        Raises:
            KeyRefusedError: The key is not valid.
            StorageUnavailableError: This process could not read the keys even once.
        """
        if caller := self.known(token):
            return caller
        if is_token(token):
            await self._look_again()
            if caller := self.known(token):
                return caller
        if self._last is None:
            raise StorageUnavailableError("The database has not said yet which keys there are")
        self._refused += 1
        await self._hold_back()
        raise KeyRefusedError("The API key is wrong, has expired, or was revoked")

    async def refresh(self) -> None:
        """Read the keys and the mode again, if they have changed.

        If the database does not respond, nothing changes.
        """
        async with self._asking:
            await self._read()

    def take_used(self) -> set[str]:
        """Return the ids of the keys used since the last call."""
        used, self._used = self._used, set()
        if self._refused:
            _log.warning("keys_refused", requests=self._refused)
            self._refused = 0
        return used

    async def _hold_back(self) -> None:
        if self._held_back >= HELD_BACK_MAX:
            return
        self._held_back += 1
        try:
            await self._pause(REFUSED_AFTER.total_seconds())
        finally:
            self._held_back -= 1

    async def _look_again(self) -> None:
        # Wait for a query of the keys that is already running. Its result may contain the unknown
        # key.
        if self._asking.locked() or self._is_time():
            async with self._asking:
                if self._is_time():
                    await self._read()

    def _is_time(self) -> bool:
        return self._clock() - self._read_at >= ASK_EVERY.total_seconds()

    async def _read(self) -> None:
        self._read_at = self._clock()
        try:
            state = await self._load(self._last)
        except StorageUnavailableError as error:
            self._outage.failed(reason=error.message)
            return
        self._outage.ended()
        if state is not None:
            self._keys = {key.id.encode(): (key, key.caller) for key in state.keys}
            self._last = state.last
            self.mode = state.mode


def known_keys(database: Database, *, now: Now = _now) -> KnownKeys:
    """Return an object for the keys in `database`. It has no keys before its first refresh."""

    async def load(last: LastChange | None) -> AccessState | None:
        async with database.transaction() as session:
            return await AccessRepository(session).since(last)

    return KnownKeys(load, now=now)


class KeyUse:
    """Reports to the database which keys were used, and when."""

    def __init__(self, database: Database, keys: KnownKeys) -> None:
        self._database = database
        self._keys = keys

    async def note(self) -> None:
        """Write the uses since the last call. If the write fails, these uses are not recorded.

        Raises:
            StorageUnavailableError: The database cannot be reached.
        """
        if used := self._keys.take_used():
            async with self._database.transaction() as session:
                await AccessRepository(session).used(sorted(used))

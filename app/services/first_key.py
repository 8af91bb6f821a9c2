"""The first key of an installation: without it, nobody could make another."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from app.domain.errors import StorageUnavailableError
from app.services.keys import KeyService

_log = structlog.get_logger(__name__)

TRY_EVERY: Final = timedelta(seconds=2)

Announce = Callable[[str], None]


async def make_first_key(
    keys: KeyService, announce: Announce, *, every: timedelta = TRY_EVERY
) -> None:
    """Make an admin's key if there never was a key, and `announce` its token, once.

    Tried again until the database can say. Where this process dies in between, the token is lost:
    `angelia keys create` makes another.
    """
    while True:
        try:
            made = await keys.create_first()
        except StorageUnavailableError as error:
            _log.warning("first_key_put_off", reason=error.message)
            await asyncio.sleep(every.total_seconds())
            continue
        except Exception:  # noqa: BLE001 - whoever has a key needs no first one
            _log.exception("first_key_broke")
            return
        if made is not None:
            announce(made.token)
        return

"""Creates the first API key of an installation. Without a first key, nobody could create others."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import structlog

from app.domain.errors import StorageUnavailableError
from app.services.access.keys import KeyService

_log = structlog.get_logger(__name__)

# The shortest and the longest pause between two attempts to create the first key. Each pause is
# twice as long as the pause before.
PAUSE_MIN: Final = timedelta(seconds=1)
PAUSE_MAX: Final = timedelta(seconds=30)

Announce = Callable[[str], None]


async def make_first_key(keys: KeyService, announce: Announce) -> None:
    """Create an admin's key if there never was a key, and `announce` its token once.

    The database may be down or not migrated yet. Then the creation is tried again until it
    succeeds. If the process ends before the announcement, the token is lost. The command
    `angelia keys create` then creates another key.
    """
    pause = PAUSE_MIN
    while True:
        try:
            made = await keys.create_first()
        except StorageUnavailableError as error:
            _log.warning("first_key_put_off", reason=error.message)
        except Exception:  # noqa: BLE001 - a bug here must not end the API
            _log.exception("first_key_broke")
        else:
            if made is not None:
                announce(made.token)
            return
        await asyncio.sleep(pause.total_seconds())
        pause = min(pause * 2, PAUSE_MAX)

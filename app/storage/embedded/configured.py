"""The database of the settings: the one that is configured, or the home's own."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog

from app.config import Settings
from app.domain.errors import AngeliaError
from app.storage.embedded.server import embedded_postgres
from app.storage.keyring import open_vault
from app.storage.migrate import upgrade

_log = structlog.get_logger(__name__)


@contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL of the configured database as it is, or of the embedded one, running in the block.

    The embedded one is started and brought to this version's schema; that blocks.
    StorageUnavailableError when it cannot start.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    with embedded_postgres(settings.home) as url:
        upgrade(url)
        yield url


@contextmanager
def database_url_or_exit(settings: Settings) -> Iterator[str]:
    """As `database_url`, for a process of its own.

    What keeps it from starting, also an unusable key file, is one line of its log; then it ends
    with exit code 1.
    """
    with ExitStack() as stack:
        try:
            url = stack.enter_context(database_url(settings))
            open_vault(settings)
        except AngeliaError as exc:
            _log.error("cannot_start", problem=exc.message)
            sys.exit(1)
        yield url

"""The database of the settings: the one that is configured, or the home's own."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.config import Settings
from app.storage.embedded import embedded_postgres
from app.storage.migrate import upgrade


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

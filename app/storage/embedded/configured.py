"""Returns the URL of the database: of the configured one, or of the embedded one."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import structlog
from pydantic import SecretStr

from app.config import Settings
from app.domain.errors import AngeliaError, StorageUnavailableError
from app.postgres.urls import ConfiguredUrl, DatabaseUrl, parsed, with_password
from app.secret_files import variable_of
from app.storage.embedded.server import embedded_postgres
from app.storage.keyring import open_vault
from app.storage.migrate import upgrade

_log = structlog.get_logger(__name__)


def configured_url(settings: Settings) -> ConfiguredUrl | None:
    """Return the URL of the configured database, with its password.

    None if no database is configured, so that the embedded database is used.

    Raises:
        StorageUnavailableError: A URL is not a PostgreSQL URL; the error names the setting.
    """
    if settings.database_url is None:
        return None
    _require_postgresql(settings, "database_url", "database_direct_url")
    password = settings.database_password
    direct = settings.database_direct_url
    return ConfiguredUrl(
        pooled=partial(_with_password, settings.database_url, password),
        direct=None if direct is None else partial(_with_password, direct, password),
    )


def _require_postgresql(settings: Settings, *names: str) -> None:
    for name in names:
        url: SecretStr | None = getattr(settings, name)
        try:
            if url is not None:
                parsed(url.get_secret_value())
        except StorageUnavailableError as exc:
            variable = variable_of(Settings, name, url)
            raise StorageUnavailableError(f"{variable}: {exc.message}") from exc


def _with_password(url: SecretStr, password: SecretStr | None) -> str:
    """Return the current URL with the current password.

    Both values may come from files that change, so they are read again each time.
    """
    given = None if password is None else password.get_secret_value()
    return with_password(url.get_secret_value(), given)


@contextmanager
def database_url(settings: Settings) -> Iterator[DatabaseUrl]:
    """Yield the URL of the configured database, or of the embedded one, which runs in the block.

    Before the block, this call starts and migrates the embedded database, and blocks meanwhile. An
    embedded database that ends during the block is started again. A configured database is not
    changed.

    Raises:
        StorageUnavailableError: The embedded database cannot start, or the URL is not valid.
    """
    if configured := configured_url(settings):
        yield configured
        return
    with embedded_postgres(settings.home, restart=True) as url:
        upgrade(url)
        yield url


@contextmanager
def database_url_or_exit(settings: Settings) -> Iterator[DatabaseUrl]:
    """Yield the URL of the database, for the main function of a process.

    If the database cannot start, or a key file cannot be used, log one line and exit with code 1.
    """
    with ExitStack() as stack:
        try:
            url = stack.enter_context(database_url(settings))
            open_vault(settings)
        except AngeliaError as exc:
            _log.error("cannot_start", problem=exc.message)
            sys.exit(1)
        yield url

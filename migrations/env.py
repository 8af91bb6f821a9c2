"""Alembic's environment. The command `alembic` uses the database in ANGELIA_DATABASE_URL."""

from typing import Final

from alembic import context
from sqlalchemy import text

from app.config import Settings
from app.log.postgres.tables import metadata as log_metadata
from app.postgres.urls import DatabaseUrl
from app.storage.embedded.configured import configured_url
from app.storage.migrate import engine_of
from app.storage.tables import metadata as storage_metadata

TARGETS: Final = [storage_metadata, log_metadata]
# How long a migration waits for the lock of a table. While it waits, all others have to wait behind
# it.
LOCK_TIMEOUT: Final = "5s"


def _url() -> DatabaseUrl:
    given: DatabaseUrl | None = context.config.attributes.get("url")
    url = given or configured_url(Settings())
    if url is None:
        raise SystemExit("Set ANGELIA_DATABASE_URL to the database to work on.")
    return url


def _run() -> None:
    with engine_of(_url()).connect() as connection:
        connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.commit()
        context.configure(
            connection=connection, target_metadata=TARGETS, transaction_per_migration=True
        )
        with context.begin_transaction():
            context.run_migrations()


_run()

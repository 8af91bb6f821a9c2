"""Alembic's environment. `alembic` on the command line takes ANGELIA_DATABASE_URL."""

from typing import Final

from alembic import context
from sqlalchemy import create_engine, pool, text

from app.config import Settings
from app.log.postgres.tables import metadata as log_metadata
from app.storage.tables import metadata as storage_metadata
from app.storage.urls import sqlalchemy_url

TARGETS: Final = [storage_metadata, log_metadata]
# A migration that cannot have a table soon must not keep everyone waiting behind it.
LOCK_TIMEOUT: Final = "5s"


def _url() -> str:
    if url := context.config.attributes.get("url"):
        return str(url)
    configured = Settings().database_url
    if configured is None:
        raise SystemExit("Set ANGELIA_DATABASE_URL to the database to work on.")
    return configured.get_secret_value()


def _run() -> None:
    engine = create_engine(sqlalchemy_url(_url()), poolclass=pool.NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.commit()
        context.configure(
            connection=connection, target_metadata=TARGETS, transaction_per_migration=True
        )
        with context.begin_transaction():
            context.run_migrations()


_run()

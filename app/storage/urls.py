"""One database URL, as each library wants it."""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from app.domain.errors import StorageUnavailableError


def sqlalchemy_url(url: str) -> URL:
    """A `postgresql://` URL for SQLAlchemy, with psycopg as the driver.

    StorageUnavailableError when `url` is not a PostgreSQL URL; the message leaves its password out.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise StorageUnavailableError(
            "The database URL is not of the form postgresql://user:password@host:port/database"
        ) from None
    if parsed.drivername.partition("+")[0] not in {"postgresql", "postgres"}:
        raise StorageUnavailableError(
            f"The database must be PostgreSQL (postgresql://…), not {parsed.drivername}"
        )
    return parsed.set(drivername="postgresql+psycopg")


def libpq_url(url: str) -> str:
    """The same URL for psycopg and the command line tools."""
    parsed = sqlalchemy_url(url).set(drivername="postgresql")
    return parsed.render_as_string(hide_password=False)

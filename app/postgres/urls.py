"""Parses the URL of a database, with libpq's parameters."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from app.domain.errors import StorageUnavailableError
from app.domain.network.egress import PORT_MAX

Parameters = Mapping[str, Any]

_FORM: Final = "The database URL is not of the form postgresql://user:password@host:port/database"
# The parameters that may differ between servers. The value of such a parameter may be a list,
# separated by commas.
_OF_SERVERS: Final = ("host", "hostaddr", "port")
_WRITABLE: Final = frozenset({"read-write", "primary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredUrl:
    """A configured URL, which is read again for each new connection, because passwords may change.

    If there is a pooler, `pooled` is the pooler's URL. There, each transaction may use another
    session. `direct` is then the URL of the server itself, for work that needs a whole session.
    Without a pooler, `pooled` is the URL of the server, and `direct` is None.
    """

    pooled: Callable[[], str]
    direct: Callable[[], str] | None = None


DatabaseUrl = str | ConfiguredUrl


def is_pooled(url: DatabaseUrl) -> bool:
    """Whether there is a pooler, so that each transaction may use another session."""
    return isinstance(url, ConfiguredUrl) and url.direct is not None


def direct(url: DatabaseUrl) -> DatabaseUrl:
    """Return the URL of the server itself, not of a pooler."""
    if isinstance(url, ConfiguredUrl) and url.direct is not None:
        return ConfiguredUrl(pooled=url.direct)
    return url


def libpq_url(url: DatabaseUrl) -> str:
    """Return the server's current URL, for psycopg and the command line tools.

    Raises:
        StorageUnavailableError: The URL is not a PostgreSQL URL. The error does not contain the
            password in the URL.
    """
    parsed(direct(url))
    return _text(direct(url))


def with_password(url: str, password: str | None) -> str:
    """Return `url` with this password. If `password` is None, return `url` unchanged.

    Raises:
        StorageUnavailableError: The URL is not a PostgreSQL URL.
    """
    if password is None:
        return url
    given = parsed(url)
    return make_conninfo("", **{**given, "password": password})


def parsed(url: DatabaseUrl) -> Parameters:
    """Return the current parameters of the URL.

    Raises:
        StorageUnavailableError: The URL is not a PostgreSQL URL. The error does not contain the
            password in the URL.
    """
    text = _text(url)
    if not text.strip():
        # Refuse an empty URL, for which libpq would use its defaults.
        raise StorageUnavailableError(_FORM)
    scheme = re.match(r"([\w+.-]+)://", text)
    if scheme and scheme[1] not in {"postgresql", "postgres"}:
        raise StorageUnavailableError(
            f"The database must be PostgreSQL (postgresql://…), not {scheme[1]}"
        )
    try:
        found = conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        # The driver's error is not shown as the cause, because its text may contain the password.
        raise StorageUnavailableError(_FORM) from None
    ports = [port for port in str(found.get("port", "")).split(",") if port]
    if not all(port.isdecimal() for port in ports):
        raise StorageUnavailableError(_FORM)
    if scheme and "@" in str(found.get("dbname", "")):
        # Refuse a URL whose password contains a slash that is not encoded. libpq would take a part
        # of the password for the port, and show this part in errors.
        raise StorageUnavailableError(_FORM)
    if not all(1 <= int(port[:9]) <= PORT_MAX for port in ports):
        raise StorageUnavailableError(f"Each port of the database must be 1 to {PORT_MAX}")
    return found


def servers(url: DatabaseUrl) -> list[Parameters]:
    """Return the parameters of each server in the URL, in order."""
    found = parsed(url)
    several = {name: str(found[name]).split(",") for name in _OF_SERVERS if found.get(name)}
    common = {name: value for name, value in found.items() if name not in _OF_SERVERS}
    count = max((len(each) for each in several.values()), default=1)
    return [common | dict(_of_server(several, number)) for number in range(count)]


def must_be_writable(url: DatabaseUrl) -> bool:
    """Whether the URL requires a server that accepts changes."""
    return parsed(url).get("target_session_attrs") in _WRITABLE


def _of_server(several: Mapping[str, list[str]], number: int) -> Iterator[tuple[str, str]]:
    for name, values in several.items():
        # If a parameter has only one value, such as one port, all servers use this value.
        if value := values[number] if number < len(values) else values[0]:
            yield name, value


def _text(url: DatabaseUrl) -> str:
    text = url if isinstance(url, str) else url.pooled()
    # Remove the name of the driver from the URL's scheme. SQLAlchemy's URLs have such a name,
    # libpq's URLs have none.
    return text.replace("postgresql+psycopg://", "postgresql://", 1)

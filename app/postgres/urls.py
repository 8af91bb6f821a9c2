"""The URL of a database, as PostgreSQL's libpq has it: the one for all of its parameters."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from app.domain.errors import StorageUnavailableError

Parameters = Mapping[str, Any]

_FORM: Final = "The database URL is not of the form postgresql://user:password@host:port/database"
# Those of one server, in lists with commas.
_OF_SERVERS: Final = ("host", "hostaddr", "port")
_WRITABLE: Final = frozenset({"read-write", "primary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredUrl:
    """As it is set: read for each new connection, so that passwords may change.

    Where `pooled` is that of a pooler, which gives a connection to whoever has a transaction,
    `direct` is that of the server itself: for all that lasts as long as a session.
    """

    pooled: Callable[[], str]
    direct: Callable[[], str] | None = None


DatabaseUrl = str | ConfiguredUrl


def is_pooled(url: DatabaseUrl) -> bool:
    """Whether a session lasts no longer than a transaction."""
    return isinstance(url, ConfiguredUrl) and url.direct is not None


def direct(url: DatabaseUrl) -> DatabaseUrl:
    """The URL of the server itself."""
    if isinstance(url, ConfiguredUrl) and url.direct is not None:
        return ConfiguredUrl(pooled=url.direct)
    return url


def libpq_url(url: DatabaseUrl) -> str:
    """The URL of the server itself as it is now, for psycopg and the command line tools.

    StorageUnavailableError when it is not a PostgreSQL URL; the message leaves its password out.
    """
    parsed(direct(url))
    return _text(direct(url))


def with_password(url: str, password: str | None) -> str:
    """`url` with that password, where one is given; as `libpq_url`."""
    if password is None:
        return url
    given = parsed(url)
    return make_conninfo("", **{**given, "password": password})


def parsed(url: DatabaseUrl) -> Parameters:
    """The parameters of the URL as it is now; StorageUnavailableError as `libpq_url`."""
    text = _text(url)
    scheme = re.match(r"([\w+.-]+)://", text)
    if scheme and scheme[1] not in {"postgresql", "postgres"}:
        raise StorageUnavailableError(
            f"The database must be PostgreSQL (postgresql://…), not {scheme[1]}"
        )
    try:
        found = conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        # The driver's words may quote the password.
        raise StorageUnavailableError(_FORM) from None
    if not all(port.isdecimal() or not port for port in str(found.get("port", "")).split(",")):
        raise StorageUnavailableError(_FORM)
    return found


def servers(url: DatabaseUrl) -> list[Parameters]:
    """The parameters of each server that the URL names, in its order."""
    found = parsed(url)
    several = {name: str(found[name]).split(",") for name in _OF_SERVERS if found.get(name)}
    common = {name: value for name, value in found.items() if name not in _OF_SERVERS}
    count = max((len(each) for each in several.values()), default=1)
    return [common | dict(_of_server(several, number)) for number in range(count)]


def must_be_writable(url: DatabaseUrl) -> bool:
    """Whether servers that take no changes are not for us."""
    return parsed(url).get("target_session_attrs") in _WRITABLE


def _of_server(several: Mapping[str, list[str]], number: int) -> Iterator[tuple[str, str]]:
    for name, values in several.items():
        # One port is that of all.
        if value := values[number] if number < len(values) else values[0]:
            yield name, value


def _text(url: DatabaseUrl) -> str:
    text = url if isinstance(url, str) else url.pooled()
    # SQLAlchemy's spelling names the driver; libpq's does not.
    return text.replace("postgresql+psycopg://", "postgresql://", 1)

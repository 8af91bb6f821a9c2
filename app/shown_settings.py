"""Shows the current values of all settings, and where each value comes from, without secrets."""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from app.config import Settings
from app.secret_files import SecretFile, variable_of

_MASK: Final = "*****"
# The form of the hosts in a URL: names or addresses, each with an optional port. A URL of
# PostgreSQL may have several hosts.
_HOSTS: Final = re.compile(r"((\[[0-9a-fA-F:.]+\]|[^:,/@]*)(:[0-9]*)?(,|$))*")
# The secret settings that are URLs. Only some parts of a URL are hidden. All other secret settings
# are hidden completely.
_SECRET_URLS: Final = frozenset(
    {
        "database_url",
        "database_direct_url",
        "schema_registry_url",
        "otlp_endpoint",
        "egress_proxy",
    }
)


class ShownSetting(NamedTuple):
    """A setting: the name of its variable, its value without secrets, and its source."""

    name: str
    value: str
    source: Literal["environment", "default"]


def shown_settings(settings: Settings) -> Sequence[ShownSetting]:
    """Return all settings, in the order of their definition."""
    return [
        ShownSetting(
            name=variable_of(Settings, name, value),
            value=_shown(name, value),
            source="environment" if name in settings.model_fields_set else "default",
        )
        for name in Settings.model_fields
        for value in [getattr(settings, name)]
    ]


def masked(secret: str) -> str:
    """Return a URL with a mask in place of its password, and without its parameters."""
    try:
        parts = urlsplit(secret)
    except ValueError:
        return _MASK
    credentials, _, hosts = parts.netloc.rpartition("@")
    user = credentials.partition(":")[0]
    # Hide the whole URL if it is not clear where the password ends. In URLs of libpq, a password
    # may contain "?" and "#".
    behind = f"{parts.path}{parts.query}{parts.fragment}"
    if not parts.scheme or "@" in behind or not _HOSTS.fullmatch(hosts):
        return _MASK
    return f"{parts.scheme}://{f'{user}:*****@' if user else ''}{hosts}{parts.path}"


def _shown(name: str, value: object) -> str:
    if isinstance(value, SecretFile):
        return str(value.path)
    if isinstance(value, SecretStr):
        return masked(value.get_secret_value()) if name in _SECRET_URLS else _MASK
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

"""Functions that check the values of single settings. They raise ValueError for a wrong value."""

import os
import re
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from app.domain.catalogue.oauth import token_endpoint
from app.domain.errors import ValidationFailedError
from app.domain.network.egress import PORT_MAX
from app.domain.network.egress_proxy import EgressProxy
from app.domain.network.hosts import ANY, host_problem

# The form of a host in the address of a Kafka broker. It is an IPv6 address, or names of at most 63
# characters with dots between them (RFC 1035, 2.3.4).
_BROKER_HOST: Final = r"(?!.{254})\w[\w-]{0,62}(\.\w[\w-]{0,62})*\.?|\[[0-9a-fA-F:.]+\]"


def authorities(path: Path) -> Path:
    """Check that the path is of a PEM file with certificates."""
    # Use `os.path` to check that the file exists, because the methods of `Path` raise errors for
    # some texts.
    if not os.path.isfile(path):  # noqa: PTH113 - `Path` refuses some texts
        raise ValueError("must be the path of a file that exists")
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise ValueError(f"must have certificates in PEM form, and {path} has none") from error
    return path


def readable(path: Path) -> Path:
    """Check that the path is of a text file that can be read."""
    try:
        path.read_text()
    except (OSError, ValueError) as error:
        raise ValueError("must be the path of a text file that can be read") from error
    return path


def folder(path: Path) -> Path:
    """Check that the path is of a folder that exists."""
    if not os.path.isdir(path):  # noqa: PTH112 - `Path` refuses some texts
        raise ValueError("must be the path of a folder that exists")
    return path


def unless_empty(value: object) -> object:
    """Return None for an empty text, and any other value unchanged.

    Some environments give a variable an empty text if the variable is not set.
    """
    return None if value == "" else value


def of_form(pattern: str, words: str) -> AfterValidator:
    """Return a validator that accepts only texts that match the pattern.

    `words` describes the accepted form. It is the text of the error.
    """

    def validate(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(words)
        return text

    return AfterValidator(validate)


def brokers(text: str) -> str:
    """Check a list of Kafka brokers, as `host:port,…`."""
    for address in text.split(","):
        host, _, port = address.strip().rpartition(":")
        is_port = re.fullmatch("[1-9][0-9]{0,4}", port) and int(port) <= PORT_MAX
        if not is_port or not re.fullmatch(_BROKER_HOST, host):
            raise ValueError(f"must be host:port,… with names or addresses, ports to {PORT_MAX}")
    return text


def host_and_port(text: str) -> str:
    """Check an address to listen on. If its port is 0, the system chooses one."""
    if not re.fullmatch(r".+:[0-9]{1,5}", text) or int(text.rpartition(":")[2]) > PORT_MAX:
        raise ValueError(f"must be host:port, ports to {PORT_MAX}")
    return text


def http_url(url: SecretStr) -> SecretStr:
    """Check that `url` is a URL of HTTP or HTTPS, without a query."""
    if not re.fullmatch(r"https?://[^/\s]+(/[^?#\s]*)?", url.get_secret_value()):
        raise ValueError("must be an http:// or https:// URL with a host, and without a query")
    return url


def origins(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check that each text is an origin as browsers send it (RFC 6454, 6.2), or `*`."""
    for text in texts:
        if text != ANY and not _ORIGIN.fullmatch(text):
            raise ValueError("each must be an origin such as https://app.example.com, without path")
    return texts


_ORIGIN: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://([^/?#@\s:A-Z\[\]]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
)
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:]*)(:[0-9]{1,5})?")


def without_credentials(location: str | None) -> str | None:
    """Check that a URL or path contains no credentials, because users can see this setting.

    Credentials belong in environment variables or in Spark's settings.
    """
    parts = urlsplit(location or "")
    # Refuse also a URL with something else than a host and a port before its first slash. It may be
    # a part of a password that contains a slash.
    clean = "@" not in parts.geturl() and _HOST.fullmatch(parts.netloc)
    if parts.scheme and not clean:
        raise ValueError("must have no credentials: give them as AWS_ACCESS_KEY_ID, …")
    return location


def header_fields(text: SecretStr) -> SecretStr:
    """Check that the text has names and values of headers in the form `name=value,…`."""
    fields = pairs(text)
    if not all(re.fullmatch(r"[!-9;-~]+", name) and value for name, value in fields):
        raise ValueError("must be name=value,…")
    return text


def pairs(text: SecretStr) -> list[tuple[str, str]]:
    """Return the names and values from a text of the form `name=value,…`."""
    items = [item.partition("=") for item in text.get_secret_value().split(",")]
    return [(name.strip(), value.strip()) for name, _, value in items]


def proxy_url(url: SecretStr) -> SecretStr:
    """Check the URL of a proxy."""
    EgressProxy.of(url.get_secret_value())
    return url


def hosts(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check that each name in the list is the name of a host, or `*`."""
    for host in names:
        if host != ANY and (problem := host_problem(host)):
            raise ValueError(f"each {problem}")
    return names


def registry_url(url: SecretStr) -> SecretStr:
    """Check the URL of a schema registry."""
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL with a host")
    return url


def token_url(url: str) -> str:
    """Check the URL of a token endpoint."""
    try:
        return token_endpoint(url)
    except ValidationFailedError as error:
        raise ValueError(error.details[0].message) from None


def items(value: object) -> object:
    """Return the items of a text in which commas separate the items."""
    if not isinstance(value, str):
        return value
    return tuple(item.strip() for item in value.split(",") if item.strip())

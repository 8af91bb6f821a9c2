"""Requests and responses as values, without the HTTP library (pure)."""

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from angelia_client.errors import NotUnderstoodError, RefusedError, refusal

# The HTTP methods whose requests can be repeated without harm.
READING: Final = frozenset({"GET", "HEAD"})
_JSON: Final = "application/json"
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# The characters that no value of a header can have: control characters, and halves of a character,
# which UTF-8 cannot encode.
_NOT_IN_HEADERS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
Query = Mapping[str, str | int | bool | datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the API.

    If `repeatable` is true, the request is repeated after a failure, because that does no harm.
    `patience` is how much longer than the usual timeout the service may take.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    patience: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response. `headers` have lower-case names. `next` is the address of the next page."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    next: str | None = None

    def json(self) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body as JSON.

        Raises:
            NotUnderstoodError: The body is not JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError as exc:
            raise NotUnderstoodError("The answer is no JSON: is this Angelia's API?") from exc

    def json_or_text(self) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body as JSON, or as text if it is not JSON; None without a body."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")

    def listed(self) -> list[Any]:
        """Return the body as a list.

        Raises:
            NotUnderstoodError: The body is not a list.
        """
        found = self.json()
        if not isinstance(found, list):
            raise NotUnderstoodError("The answer is no JSON array: is this Angelia's API?")
        return found

    def refusal(self) -> RefusedError:
        """Return the error that the response describes."""
        try:
            body = json.loads(self.body)
        except ValueError:
            body = {}
        after = _retry_after(self.headers.get("retry-after"))
        return refusal(self.status, body if isinstance(body, dict) else {}, retry_after=after)


def get(path: str, query: Query | None = None) -> Request:
    """Return a GET request for this path and query."""
    return Request(method="GET", path=path + query_of(query or {}), repeatable=True)


def with_json(method: str, path: str, value: object) -> Request:
    """Return a request with a JSON body."""
    return Request(method=method, path=path, body=json_of(value), headers={"Content-Type": _JSON})


def asking(path: str, query: Mapping[str, Any]) -> Request:
    """Return a POST request that only reads: its body is a query in Hermes' language."""
    return replace(with_json("POST", path, {"query": query}), repeatable=True)


def in_numbers(request: Request) -> Request:
    """Return the request with a header that asks for metrics as numbers.

    Without the header, some installations send metrics as texts, as Hermes does.
    """
    return replace(request, headers={**request.headers, "Prefer": "figures=numbers"})


def creating(path: str, value: object, *, key: str) -> Request:
    """Return a request that creates something only once for each `key`, so it can be repeated."""
    headers = {"Content-Type": _JSON, "Idempotency-Key": key}
    return Request(method="POST", path=path, body=json_of(value), headers=headers, repeatable=True)


def header_value(name: str, value: object) -> str:
    """Return a value for a header. `name` is the argument that has the value.

    Raises:
        InvalidError: No header can have the value. No request is sent.
    """
    rule = "must be a text without control characters, and without spaces at its ends"
    if not isinstance(value, str) or value != value.strip(" \t") or _NOT_IN_HEADERS.search(value):
        raise _invalid(name, rule)
    return value


def own_headers(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the argument `headers`.

    Raises:
        InvalidError: This is not a name or value of a header. No request is sent.
    """
    for name, value in given.items():
        if not _is_header_name(name):
            raise _invalid("headers", f"must not have {name!r}, which is no name of a header")
        header_value(f"headers.{name}", value)
    return given


def _is_header_name(name: object) -> bool:
    return isinstance(name, str) and _HEADER_NAME.fullmatch(name) is not None


def _invalid(name: str, rule: str) -> RefusedError:
    details = [{"path": name, "message": rule}]
    return refusal(HTTPStatus.BAD_REQUEST, {"message": f"{name} {rule}", "details": details})


def headers_in_utf8(headers: Mapping[str, str]) -> Mapping[bytes, bytes]:
    """Return headers as bytes in UTF-8, which the service takes. The HTTP library takes ASCII."""
    return {name.encode(): value.encode() for name, value in headers.items()}


def topic_path(name: str) -> str:
    """Return the path of a topic."""
    return f"/topics/{escaped(name)}"


def subscription_path(topic: str, name: str) -> str:
    """Return the path of a subscription."""
    return f"{topic_path(topic)}/subscriptions/{escaped(name)}"


def escaped(name: str) -> str:
    """Return a name as one segment of a path."""
    return quote(name, safe="")


def query_of(given: Query) -> str:
    """Return the query `?…` with all values that are not None; empty if all values are None."""
    parameters = {name: _text(value) for name, value in given.items() if value is not None}
    return f"?{urlencode(parameters)}" if parameters else ""


def json_of(value: object) -> bytes:
    """Return the value as JSON.

    Raises:
        ValueError: The value cannot be written as JSON.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def without_password(url: str) -> str:
    """Return a URL without its password."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"


def verification(url: str) -> ssl.SSLContext | Literal[True]:
    """Return how to verify the certificate of an API at `url`.

    For plain HTTP, no certificates are loaded. Loading the certificates of the system takes long.
    """
    plain = url.lower().startswith("http:")
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True


def time_text(moment: datetime) -> str:
    """Return a time in RFC 3339.

    Raises:
        ValueError: The time has no time zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(UTC).isoformat()


def moment_text(moment: datetime | str) -> str:
    """Return a time, or a duration before now (such as `-6h`), as text."""
    return moment if isinstance(moment, str) else time_text(moment)


def _text(value: str | float | datetime) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return time_text(value) if isinstance(value, datetime) else str(value)


def _retry_after(text: str | None) -> timedelta | None:
    """Parse a number of seconds, as Angelia sends it. Dates are not supported."""
    return timedelta(seconds=int(text)) if text and text.isascii() and text.isdigit() else None

"""Requests and answers as values, without the library that carries them (pure)."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from angelia_client.errors import NotUnderstoodError, RefusedError, refusal

# To ask twice does no harm.
READING: Final = frozenset({"GET", "HEAD"})
_JSON: Final = "application/json"
Query = Mapping[str, str | int | bool | datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the API.

    `repeatable`: to send it twice does no harm, so it is sent again when it failed. `patience` is
    how long the service may take beyond what any answer takes.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    patience: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer; `headers` by their names in lower case, `next` the address of the next page."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    next: str | None = None

    def json(self) -> Any:  # noqa: ANN401 - JSON is of any type
        """The body; NotUnderstoodError when it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError as exc:
            raise NotUnderstoodError("The answer is no JSON: is this Angelia's API?") from exc

    def json_or_text(self) -> Any:  # noqa: ANN401 - JSON is of any type
        """The body as JSON, or as text where it is none; None where there is no body."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode(errors="replace")

    def listed(self) -> list[Any]:
        """The body, which is a list; NotUnderstoodError."""
        found = self.json()
        if not isinstance(found, list):
            raise NotUnderstoodError("The answer is no JSON array: is this Angelia's API?")
        return found

    def refusal(self) -> RefusedError:
        """The error that the answer tells of."""
        try:
            body = json.loads(self.body)
        except ValueError:
            body = {}
        after = _retry_after(self.headers.get("retry-after"))
        return refusal(self.status, body if isinstance(body, dict) else {}, retry_after=after)


def get(path: str, query: Query | None = None) -> Request:
    """A request that reads."""
    return Request(method="GET", path=path + query_of(query or {}), repeatable=True)


def with_json(method: str, path: str, value: object) -> Request:
    """A request with a JSON body."""
    return Request(method=method, path=path, body=json_of(value), headers={"Content-Type": _JSON})


def asking(path: str, query: Mapping[str, Any]) -> Request:
    """A request that reads what a query in Hermes' form asks for."""
    return replace(with_json("POST", path, {"query": query}), repeatable=True)


def in_numbers(request: Request) -> Request:
    """A request for metrics in our own form, though the service may answer Hermes' by default."""
    return replace(request, headers={**request.headers, "Prefer": "figures=numbers"})


def creating(path: str, value: object, *, key: str) -> Request:
    """A request that creates something, once for each `key`: so it can be sent again."""
    headers = {"Content-Type": _JSON, "Idempotency-Key": key}
    return Request(method="POST", path=path, body=json_of(value), headers=headers, repeatable=True)


def topic_path(name: str) -> str:
    """Where a topic is."""
    return f"/topics/{escaped(name)}"


def subscription_path(topic: str, name: str) -> str:
    """Where a subscription is."""
    return f"{topic_path(topic)}/subscriptions/{escaped(name)}"


def escaped(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def query_of(given: Query) -> str:
    """`?…` with what is not None; empty when nothing is."""
    said = {name: _text(value) for name, value in given.items() if value is not None}
    return f"?{urlencode(said)}" if said else ""


def json_of(value: object) -> bytes:
    """As JSON; ValueError for what JSON has no word for."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def without_password(url: str) -> str:
    """A URL as it can be shown."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"


def verification(url: str) -> ssl.SSLContext | Literal[True]:
    """How the certificate of an API at `url` is verified: as usual.

    To read the authorities of the world takes a while, and who speaks in plain text has no use for
    them: there, none is trusted.
    """
    plain = url.lower().startswith("http:")
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True


def time_text(moment: datetime) -> str:
    """In RFC 3339; ValueError without a time zone, which nobody could know."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(UTC).isoformat()


def moment_text(moment: datetime | str) -> str:
    """A time, or what says how long ago it is (`-6h`)."""
    return moment if isinstance(moment, str) else time_text(moment)


def _text(value: str | float | datetime) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return time_text(value) if isinstance(value, datetime) else str(value)


def _retry_after(text: str | None) -> timedelta | None:
    """In seconds, as Angelia says it; dates are for caches."""
    return timedelta(seconds=int(text)) if text and text.isascii() and text.isdigit() else None

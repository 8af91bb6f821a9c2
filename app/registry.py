"""A client for a schema registry with Confluent's REST API.

Every request has limits for its time and for the size of the response. All failures of the registry
become SchemaRegistryError.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from app.domain.catalogue.schema import ContentType
from app.domain.errors import SchemaRegistryError, ValidationFailedError
from app.http_bodies import NOT_COMPRESSED, UnfitBodyError, plain_body
from app.schemas.versions import Registered

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
CONNECTIONS_MAX: Final = 8

_MEDIA: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_UNPROCESSABLE: Final = 422
# An error shows at most this many characters of the reason that the registry gives.
_REASON_MAX: Final = 500


class SchemaRegistry:
    """The schema registry. It stores the versions of each topic's schema as one subject.

    The name of the subject consists of the topic's name and `suffix`.
    """

    def __init__(self, client: httpx.AsyncClient, *, suffix: str = "") -> None:
        self._client = client
        self._suffix = suffix

    async def register(self, topic: str, kind: ContentType, text: str) -> Registered:
        """Register `text` as the newest version of the topic's schema.

        If the registry already has this schema, no version is added.

        Raises:
            ValidationFailedError: The registry refuses the schema; the error has the reason.
            SchemaRegistryError: The registry failed.
        """
        subject = self._subject(topic)
        body = _given(kind, text)
        await self._requested("POST", f"{subject}/versions", body)
        found = await self._requested("POST", subject, body)
        if found is None:
            raise SchemaRegistryError("The schema registry does not know what it has just taken")
        return _registered(found)

    async def require_compatible(self, topic: str, kind: ContentType, text: str) -> None:
        """Check that the registry would accept `text` as the newest version of the topic's schema.

        Raises:
            ValidationFailedError: The registry would refuse the schema.
            SchemaRegistryError: The registry failed.
        """
        path = f"compatibility/{self._subject(topic)}/versions/latest?verbose=true"
        found = await self._requested("POST", path, _given(kind, text))
        match found:
            case None | {"is_compatible": True}:
                # None means that the registry has no version yet. Then any schema is compatible.
                return
            case {"is_compatible": False}:
                messages = found.get("messages")
                reason = "; ".join(map(str, messages)) if isinstance(messages, list) else ""
                raise _refused(reason or "it is not compatible")
            case _:
                raise _unexpected()

    async def versions(self, topic: str) -> list[int]:
        """Return the numbers of the versions of the topic's schema, oldest first.

        Raises:
            SchemaRegistryError: The registry failed.
        """
        found = await self._requested("GET", f"{self._subject(topic)}/versions")
        if found is None:
            return []
        if not isinstance(found, list) or not all(type(each) is int for each in found):
            raise _unexpected()
        return sorted(found)

    async def version(self, topic: str, number: int) -> Registered | None:
        """Return one version of the topic's schema, if it exists.

        Raises:
            SchemaRegistryError: The registry failed.
        """
        found = await self._requested("GET", f"{self._subject(topic)}/versions/{number}")
        return None if found is None else _registered(found)

    async def latest(self, topic: str) -> Registered | None:
        """Return the newest version of the topic's schema; None if there is none.

        Raises:
            SchemaRegistryError: The registry failed.
        """
        found = await self._requested("GET", f"{self._subject(topic)}/versions/latest")
        return None if found is None else _registered(found)

    async def delete(self, topic: str) -> None:
        """Delete all versions of the topic's schema from the registry, if there are any.

        Raises:
            SchemaRegistryError: The registry failed.
        """
        await self._requested("DELETE", self._subject(topic))

    def _subject(self, topic: str) -> str:
        return f"subjects/{quote(topic + self._suffix, safe='')}"

    async def _requested(self, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Send a request. Return the response, or None if its status is 404.

        Raises:
            ValidationFailedError: The registry refuses the request.
            SchemaRegistryError: The registry failed.
        """
        content = None if body is None else orjson.dumps(body)
        try:
            async with self._client.stream(method, path, content=content) as answer:
                read = await _read(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            reason = str(exc) or type(exc).__name__
            raise SchemaRegistryError(f"The schema registry does not answer: {reason}") from exc
        if answer.is_success:
            return read
        if answer.status_code == _NOT_FOUND:
            return None
        message = read.get("message") if isinstance(read, dict) else None
        reported = str(message or f"status {answer.status_code}")[:_REASON_MAX]
        if answer.status_code in {_CONFLICT, _UNPROCESSABLE}:
            raise _refused(reported)
        raise SchemaRegistryError(f"The schema registry answers {answer.status_code}: {reported}")


@asynccontextmanager
async def open_registry(url: str, *, suffix: str = "") -> AsyncIterator[SchemaRegistry]:
    """Yield the registry at `url`, which may contain user and password."""
    base = httpx.URL(url if url.endswith("/") else f"{url}/")
    auth = httpx.BasicAuth(base.username, base.password) if base.username else None
    async with httpx.AsyncClient(
        base_url=base.copy_with(username=None, password=None),
        auth=auth,
        headers={"Accept": f"{_MEDIA}, application/json", "Content-Type": _MEDIA} | NOT_COMPRESSED,
        timeout=TIMEOUT_S,
        limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
        # The client uses no proxy of the environment and follows no redirect, because the operator
        # sets the address.
        trust_env=False,
    ) as client:
        yield SchemaRegistry(client, suffix=suffix)


async def _read(answer: httpx.Response) -> Any:  # noqa: ANN401 - JSON can have any type
    try:
        return orjson.loads(await plain_body(answer, bytes_max=ANSWER_BYTES_MAX))
    except UnfitBodyError as exc:
        raise SchemaRegistryError(f"The schema registry's answer {exc}") from exc
    except orjson.JSONDecodeError as exc:
        if answer.is_success:
            raise _unexpected() from exc
        return None


def _registered(found: Any) -> Registered:  # noqa: ANN401 - JSON can have any type
    match found:
        case {"version": int(version), "id": int(number), "schema": str(text)}:
            if version > 0 and 0 <= number < 1 << 32:
                return Registered(version=version, id=number, text=text)
        case _:
            pass
    raise _unexpected()


def _unexpected() -> SchemaRegistryError:
    return SchemaRegistryError("The schema registry answers what no schema registry does")


def _given(kind: ContentType, text: str) -> dict[str, str]:
    return {"schema": text} | ({} if kind is ContentType.AVRO else {"schemaType": "JSON"})


def _refused(reason: str) -> ValidationFailedError:
    message = f"is refused by the registry: {reason[:_REASON_MAX]}"
    return ValidationFailedError.of("schema", message)

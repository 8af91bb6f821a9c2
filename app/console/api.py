"""Calls the routes of the REST API inside this process, without a network connection."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.types import ASGIApp, Message, Scope

from app.accepted import JSON, TEXT

# The query parameters of a request, by name. A parameter with a list of texts is sent once for each
# text.
Query = Mapping[str, str | int | Sequence[str] | None]

_ERROR: Final = 400


class FieldError(NamedTuple):
    """An error of the API about one field. `path` is the path of the field in the body."""

    path: str
    message: str


class ApiRefusedError(Exception):
    """The API answered a request of a page with an error. The page shows `message`."""

    def __init__(
        self, status: int, message: str, *, code: str = "OTHER", details: Sequence[FieldError] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = tuple(details)


class ApiAnswer(NamedTuple):
    """An answer of the API.

    `body` is parsed JSON, a text, or bytes. None: the answer has no body.
    """

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to the API. Pages show each request as a command that readers can copy.

    `path` includes the query. A `body` of bytes is sent unchanged, and any other one as JSON.
    """

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def call_of(
    method: str,
    path: str,
    body: object = None,
    *,
    query: Query | None = None,
    headers: Mapping[str, str] | None = None,
) -> Call:
    """Return the request to the API with these parts. Parameters without a value are left out."""
    text = urlencode({k: v for k, v in (query or {}).items() if v is not None}, doseq=True)
    whole = f"{path}?{text}" if text else path
    return Call(method=method, path=whole, body=body, headers=headers or {})


def path_of(*names: str) -> str:
    """Return a path of the API. Each of `names` is one part of the path, and is percent-encoded."""
    return "".join(f"/{quote(name, safe='')}" for name in names)


async def gathered(*calls: Coroutine[Any, Any, Any]) -> Sequence[Any]:
    """Run calls of the API at the same time. Return the results in the order of `calls`.

    Raises:
        ApiRefusedError: A call was refused. The other calls are cancelled.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each) for each in calls]
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return [each.result() for each in running]


@dataclass(slots=True, kw_only=True)
class Api:
    """Calls the routes of the REST API `app` with the API key `token`.

    `calls` has all requests so far. The page shows them to its reader.
    """

    app: ASGIApp
    token: str | None
    calls: list[Call] = field(default_factory=list)

    async def get(self, path: str, query: Query | None = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body of the API's answer to a GET of `path`.

        Raises:
            ApiRefusedError: The API has answered with an error.
        """
        return (await self.call("GET", path, query=query)).body

    async def find(self, path: str, query: Query | None = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body of the API's answer to a GET of `path`; None if the answer is an error.

        This method is for data that a page can do without. The page is then shown without these
        data.
        """
        try:
            return await self.get(path, query)
        except ApiRefusedError:
            return None

    async def state(self, path: str) -> Any:  # noqa: ANN401 - JSON can have any type
        """Return the body of the answer to a GET of `path`, whatever the status of the answer is.

        The routes below `/status` answer 503 with a body if a part of the service does not work.
        """
        self.calls.append(Call(method="GET", path=path))
        sent = _scope("GET", path, query="", headers={"accept": JSON})
        return (await _answered(self.app, sent, b"")).body

    async def send(
        self, method: str, path: str, body: object = None, *, query: Query | None = None
    ) -> ApiAnswer:
        """Send `body` as JSON to `path`, and return the answer. If `body` is None, send no body.

        Raises:
            ApiRefusedError: The API has answered with an error.
        """
        return await self.call(method, path, query=query, body=body)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        """Call a route of the API, and return its answer.

        A `body` of bytes is sent unchanged. Any other `body` is sent as JSON.

        Raises:
            ApiRefusedError: The API has answered with an error.
        """
        return await self.run(call_of(method, path, body, query=query, headers=headers))

    async def run(self, call: Call) -> ApiAnswer:
        """Make a request to the API, and return the answer.

        Raises:
            ApiRefusedError: The API has answered with an error.
        """
        self.calls.append(call)
        body = call.body
        raw = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        sent = {"accept": JSON, "content-length": str(len(raw)), **call.headers}
        if body is not None:
            sent.setdefault("content-type", JSON)
        if self.token is not None:
            sent["authorization"] = f"Bearer {self.token}"
        path, _, query = call.path.partition("?")
        scope = _scope(call.method, path, query=query, headers=sent)
        answer = await _answered(self.app, scope, raw)
        if answer.status >= _ERROR:
            raise _refused(answer.status, answer.body)
        return answer


def _scope(method: str, path: str, *, query: str, headers: Mapping[str, str]) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": None,
        "server": None,
        "state": {},
    }


async def _answered(app: ASGIApp, scope: Scope, body: bytes) -> ApiAnswer:
    started: Message = {}
    parts: list[bytes] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in started["headers"]}
    raw, status = b"".join(parts), int(started["status"])
    read = _read(raw, headers.get("content-type", ""))
    return ApiAnswer(status, headers, read)


def _read(raw: bytes, content_type: str) -> Any:  # noqa: ANN401 - JSON can have any type
    if not raw:
        return None
    media = content_type.partition(";")[0].strip()
    if media == JSON:
        return orjson.loads(raw)
    return raw.decode("utf-8", "replace") if media == TEXT else raw


def _refused(status: int, answer: Any) -> ApiRefusedError:  # noqa: ANN401 - JSON can have any type
    if not isinstance(answer, dict):
        return ApiRefusedError(status, HTTPStatus(status).phrase)
    details = [FieldError(each["path"], each["message"]) for each in answer.get("details", ())]
    return ApiRefusedError(status, answer["message"], code=answer["code"], details=details)

"""Requests to an OTLP endpoint over HTTP."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Final

import httpx
import structlog

from app.http_bodies import NOT_COMPRESSED, UnfitBodyError, plain_body

TIMEOUT_S: Final = 10.0
# The maximum size of a response. After a larger response, its connection is not used again.
ANSWER_BYTES_MAX: Final = 64 * 1024
# The statuses after which a retry makes sense, by the OTLP specification. After any other status, a
# retry is useless.
_LATER: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"} | NOT_COMPRESSED

_log = structlog.get_logger(__name__)


class Taken(Enum):
    """Whether the endpoint has accepted an export.

    YES: accepted. NO: refused, and a retry is useless. LATER: a retry may succeed.
    """

    YES = "yes"
    # NO means that the endpoint refuses the data, so a retry is useless.
    NO = "no"
    LATER = "later"


class OtlpClient:
    """Sends telemetry to one endpoint; created by `otlp_client`. The methods raise no errors."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def export(self, signal: str, body: bytes) -> Taken:
        """Send an encoded request once. `signal` is `traces` or `metrics`."""
        try:
            answer = await self._posted(f"v1/{signal}", body)
        except httpx.HTTPError as error:
            _log.warning("otlp_not_reached", signal=signal, reason=type(error).__name__)
            return Taken.LATER
        if answer.is_success:
            return Taken.YES
        _log.warning("otlp_refused", signal=signal, status=answer.status_code)
        return Taken.LATER if answer.status_code in _LATER else Taken.NO

    async def _posted(self, path: str, body: bytes) -> httpx.Response:
        """Send a request. Return the response without its body. Only the status is needed."""
        async with self._http.stream("POST", path, content=body, headers=_PROTOBUF) as answer:
            with suppress(UnfitBodyError):
                await plain_body(answer, bytes_max=ANSWER_BYTES_MAX)
        return answer


@asynccontextmanager
async def otlp_client(
    endpoint: str, headers: Mapping[str, str], *, ca_file: Path | None = None
) -> AsyncIterator[OtlpClient]:
    """Yield a client for the endpoint, which must accept data at the usual paths of OTLP.

    The paths are `{endpoint}/v1/traces` and `{endpoint}/v1/metrics`.
    """
    trusted = ssl.create_default_context()
    if ca_file is not None:
        trusted.load_verify_locations(ca_file)
    async with httpx.AsyncClient(
        base_url=f"{endpoint.rstrip('/')}/",
        headers=headers,
        timeout=TIMEOUT_S,
        verify=trusted,
        # Ignore environment variables about HTTP, because Angelia's settings have everything that
        # is needed.
        trust_env=False,
    ) as http:
        yield OtlpClient(http)

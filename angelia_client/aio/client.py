"""`AsyncAngelia`: the whole API at one address."""

from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import httpx

from angelia_client.aio.access import AsyncAudit, AsyncKeys
from angelia_client.aio.jobs import AsyncAnalytics, AsyncJobs
from angelia_client.aio.ledgers import AsyncLedgers
from angelia_client.aio.publishing import AsyncPublishing
from angelia_client.aio.retransmissions import AsyncRetransmissions
from angelia_client.aio.schemas import AsyncSchemas
from angelia_client.aio.sending import AsyncSender
from angelia_client.aio.subscriptions import AsyncSigningSecrets, AsyncSubscriptions
from angelia_client.aio.topics import AsyncGroups, AsyncMessages, AsyncTopics
from angelia_client.aio.undelivered import AsyncDiscards
from angelia_client.errors import ServiceError
from angelia_client.models import Readiness
from angelia_client.requests import READING, Request, get, verification, with_json
from angelia_client.retries import Retries

DEFAULT_URL: Final = "http://127.0.0.1:8090"
# The default time limit of an attempt. Publishing waits for the log, and suspending waits up to 2 s
# for the workers.
DEFAULT_TIMEOUT: Final = timedelta(seconds=15)
_RETRIES: Final = Retries()


class AsyncAngelia(AsyncPublishing):
    """The API at `url`. Use it with `async with`, or call `aclose` at the end.

    A client may be shared by tasks. Every method may raise ClientError.

    Args:
        url: The address of the API.
        api_key: The API key that is sent with each request; None to send none.
        timeout: The time limit of one attempt.
        retries: How often failed attempts are repeated.
        trust_env: Whether proxies and certificates are taken from environment variables.
        http: An HTTP client of your own, which is used instead. You must close it.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        retries: Retries = _RETRIES,
        trust_env: bool = True,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._http = http or httpx.AsyncClient(trust_env=trust_env, verify=verification(url))
        self._owned = http is None
        sender = AsyncSender(self._http, url, api_key=api_key, timeout=timeout, retries=retries)
        super().__init__(sender)
        self.url: Final = sender.url
        self.groups: Final = AsyncGroups(sender)
        self.topics: Final = AsyncTopics(sender)
        self.schemas: Final = AsyncSchemas(sender)
        self.messages: Final = AsyncMessages(sender)
        self.subscriptions: Final = AsyncSubscriptions(sender)
        self.signing_secrets: Final = AsyncSigningSecrets(sender)
        self.undelivered: Final = AsyncDiscards(sender)
        self.retransmissions: Final = AsyncRetransmissions(sender)
        self.ledgers: Final = AsyncLedgers(sender)
        self.jobs: Final = AsyncJobs(sender)
        self.analytics: Final = AsyncAnalytics(sender)
        self.keys: Final = AsyncKeys(sender)
        self.audit: Final = AsyncAudit(sender)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client's connections."""
        if self._owned:
            await self._http.aclose()

    async def call(self, method: str, path: str, value: object = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Make any call of the API, with `value` as JSON. Return the response as JSON, or None.

        `path` begins with a slash, and includes the query. A call that failed is repeated only if
        its method changes nothing (GET, HEAD).
        """
        request = with_json(method, path, value) if value is not None else None
        bare = Request(method=method, path=path, repeatable=method in READING)
        answer = await self._sender.send(request or bare)
        return answer.json_or_text()

    async def readiness(self) -> Readiness:
        """Return whether the API can accept messages now, and which parts are not ready."""
        try:
            return Readiness.of(await self._sender.json(get("/status/ready")))
        except ServiceError as error:
            if "parts" not in error.body:
                raise
            return Readiness.of(error.body)

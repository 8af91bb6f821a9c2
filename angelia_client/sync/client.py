"""`Angelia`: the whole API at one address."""

# Made from angelia_client/aio by `make client`: change it there.

from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import httpx

from angelia_client.errors import ServiceError
from angelia_client.models import Readiness
from angelia_client.requests import READING, Request, get, verification, with_json
from angelia_client.retries import Retries
from angelia_client.sync.access import Audit, Keys
from angelia_client.sync.jobs import Analytics, Jobs
from angelia_client.sync.ledgers import Ledgers
from angelia_client.sync.publishing import Publishing
from angelia_client.sync.retransmissions import Retransmissions
from angelia_client.sync.schemas import Schemas
from angelia_client.sync.sending import Sender
from angelia_client.sync.subscriptions import SigningSecrets, Subscriptions
from angelia_client.sync.topics import Groups, Messages, Topics
from angelia_client.sync.undelivered import Discards

DEFAULT_URL: Final = "http://127.0.0.1:8090"
# The default time limit of an attempt. Publishing waits for the log, and suspending waits up to 2 s
# for the workers.
DEFAULT_TIMEOUT: Final = timedelta(seconds=15)
_RETRIES: Final = Retries()


class Angelia(Publishing):
    """The API at `url`. Use it with `with`, or call `close` at the end.

    A client may be shared by threads. Every method may raise ClientError.

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
        http: httpx.Client | None = None,
    ) -> None:
        self._http = http or httpx.Client(trust_env=trust_env, verify=verification(url))
        self._owned = http is None
        sender = Sender(self._http, url, api_key=api_key, timeout=timeout, retries=retries)
        super().__init__(sender)
        self.url: Final = sender.url
        self.groups: Final = Groups(sender)
        self.topics: Final = Topics(sender)
        self.schemas: Final = Schemas(sender)
        self.messages: Final = Messages(sender)
        self.subscriptions: Final = Subscriptions(sender)
        self.signing_secrets: Final = SigningSecrets(sender)
        self.undelivered: Final = Discards(sender)
        self.retransmissions: Final = Retransmissions(sender)
        self.ledgers: Final = Ledgers(sender)
        self.jobs: Final = Jobs(sender)
        self.analytics: Final = Analytics(sender)
        self.keys: Final = Keys(sender)
        self.audit: Final = Audit(sender)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client's connections."""
        if self._owned:
            self._http.close()

    def call(self, method: str, path: str, value: object = None) -> Any:  # noqa: ANN401 - JSON can have any type
        """Make any call of the API, with `value` as JSON. Return the response as JSON, or None.

        `path` begins with a slash, and includes the query. A call that failed is repeated only if
        its method changes nothing (GET, HEAD).
        """
        request = with_json(method, path, value) if value is not None else None
        bare = Request(method=method, path=path, repeatable=method in READING)
        answer = self._sender.send(request or bare)
        return answer.json_or_text()

    def readiness(self) -> Readiness:
        """Return whether the API can accept messages now, and which parts are not ready."""
        try:
            return Readiness.of(self._sender.json(get("/status/ready")))
        except ServiceError as error:
            if "parts" not in error.body:
                raise
            return Readiness.of(error.body)

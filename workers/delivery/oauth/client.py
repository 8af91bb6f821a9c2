"""Requests tokens from providers, with the same transport as deliveries."""

import asyncio
import base64
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import quote_plus, urlencode

import httpx

from app.domain.catalogue.oauth import ClientAuthentication, GrantType, OAuthPolicy, OAuthProvider
from app.token_answers import Issued, TokenRequestError, error_in, issued_in
from workers.delivery.retry_after import retry_after
from workers.transport.answer import RawAnswer
from workers.transport.dialer import ConnectionOrigin
from workers.transport.failures import failure_reason
from workers.transport.wire import request_start, whole_request

# The maximum number of token requests to one provider at the same time. Further requests wait.
REQUESTS_MAX: Final = 8


class Exchanging(Protocol):
    """Sends requests to allowed addresses."""

    async def exchange(
        self, origin: ConnectionOrigin, payload: bytes, *, total_s: float
    ) -> RawAnswer:
        """Send `payload`, a request as bytes, and return the response.

        Raises:
            httpx.TransportError: There is no response.
        """


class ProviderClient:
    """Requests tokens from one provider, a limited number at a time."""

    def __init__(self, provider: OAuthProvider, transport: Exchanging) -> None:
        self.provider = provider
        self._transport = transport
        self._free = asyncio.Semaphore(REQUESTS_MAX)

    async def ask(self, policy: OAuthPolicy) -> Issued:
        """Request a token from the provider, as `policy` says.

        Raises:
            TokenRequestError: No token was issued; the error has the reason.
        """
        if self.provider.locked:
            raise TokenRequestError(self.provider.locked)
        async with self._free:
            answer = await self._answer(policy)
        if answer.status != HTTPStatus.OK:
            raise _refused(answer)
        if answer.truncated:
            raise TokenRequestError("its answer is larger than any with a token")
        return issued_in(answer.body)

    async def _answer(self, policy: OAuthPolicy) -> RawAnswer:
        timeout = self.provider.timeout
        try:
            url = httpx.URL(self.provider.token_endpoint)
            request = _request(url, self.provider, policy)
            return await self._transport.exchange(
                ConnectionOrigin.of(url), request, total_s=timeout.total_seconds()
            )
        except httpx.TransportError as exc:
            raise TokenRequestError(failure_reason(exc, timeout)) from exc
        except httpx.InvalidURL as exc:
            raise TokenRequestError(f"its token endpoint is no URL: {exc}") from exc


def _request(url: httpx.URL, provider: OAuthProvider, policy: OAuthPolicy) -> bytes:
    """Return the token request as bytes (RFC 6749, sections 4.3.2 and 4.4.2).

    The request contains the client's credentials as section 2.3.1 says.
    """
    form = {"grant_type": _GRANTS[policy.grant_type]}
    if policy.grant_type is GrantType.PASSWORD:
        form |= {"username": policy.username, "password": policy.password or ""}
    if policy.scope:
        form["scope"] = policy.scope
    headers = [
        (b"Host", url.netloc),
        (b"User-Agent", b"Angelia"),
        (b"Accept", b"application/json"),
        (b"Content-Type", b"application/x-www-form-urlencoded"),
    ]
    if provider.client_authentication is ClientAuthentication.BASIC:
        credentials = f"{quote_plus(provider.client_id)}:{quote_plus(provider.client_secret)}"
        headers.append(
            (b"Authorization", b"Basic " + base64.b64encode(credentials.encode("ascii")))
        )
    else:
        form |= {"client_id": provider.client_id, "client_secret": provider.client_secret}
    start = request_start(b"POST", url.raw_path, headers)
    return whole_request(start, (), urlencode(form).encode("ascii"))


_GRANTS: Final = {
    GrantType.CLIENT_CREDENTIALS: "client_credentials",
    GrantType.PASSWORD: "password",
}


def _refused(answer: RawAnswer) -> TokenRequestError:
    code = error_in(answer.body)
    # If the response has the header more than once, this has all of its values.
    header = httpx.Headers(answer.headers).get("retry-after", "")
    return TokenRequestError(
        f"it answered {answer.status}" + (f" ({code})" if code else ""),
        retry_after=retry_after(header, datetime.now(UTC)),
    )

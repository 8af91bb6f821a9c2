"""Requests access tokens with client credentials (RFC 6749, section 4.4)."""

import asyncio
import ssl
from http import HTTPStatus
from typing import Final
from urllib.parse import quote_plus

import httpx

from app.domain.kafka_security import KafkaOAuth
from app.http_bodies import NOT_COMPRESSED, UnfitBodyError, plain_body
from app.log.kafka import refusals
from app.log.kafka.tokens.rotated_secret import RotatedSecret
from app.token_answers import Issued, TokenRequestError, error_in, issued_in

ANSWER_BYTES_MAX: Final = 64 * 1024


class ClientCredentials:
    """Requests tokens at a token endpoint, as a client that the endpoint knows."""

    def __init__(self, oauth: KafkaOAuth) -> None:
        self._oauth = oauth
        self._url = oauth.token_url or ""
        self._secret = RotatedSecret(oauth.client_secret, oauth.client_secret_file)

    async def request(self) -> Issued:
        """Request a token. The caller limits the time.

        Raises:
            TokenRequestError: No token was issued; the reason names what to check.
        """
        try:
            status, body = await self._answer()
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise TokenRequestError(refusals.of_token_endpoint(error)) from error
        except UnfitBodyError as error:
            raise TokenRequestError(f"its answer {error}") from error
        if status != HTTPStatus.OK:
            raise TokenRequestError(refusals.of_token_answer(status, error_in(body)))
        return issued_in(body, length_max=ANSWER_BYTES_MAX)

    async def _answer(self) -> tuple[int, bytes]:
        # Load the certificates on a thread, because this takes 20 ms, and the event loop has other
        # work.
        context = await asyncio.to_thread(ssl.create_default_context, cafile=self._oauth.ca_file)
        form = {"grant_type": "client_credentials", "scope": self._oauth.scope}
        async with (
            # The request uses no proxy of the environment and follows no redirect, because the
            # operator sets the address.
            httpx.AsyncClient(verify=context, timeout=None, trust_env=False) as client,  # noqa: S113 - the caller of `request` limits the time
            client.stream(
                "POST",
                self._url,
                data={name: value for name, value in form.items() if value is not None},
                auth=self._client(),
                headers={"Accept": "application/json"} | NOT_COMPRESSED,
            ) as answer,
        ):
            return answer.status_code, await plain_body(answer, bytes_max=ANSWER_BYTES_MAX)

    def _client(self) -> httpx.BasicAuth:
        """Return the client's id and secret in the form of RFC 6749, section 2.3.1."""
        return httpx.BasicAuth(
            quote_plus(self._oauth.client_id or ""), quote_plus(self._secret.text())
        )

"""Tokens by client credentials, from a real endpoint."""

import gzip
import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.domain.kafka_security import KafkaOAuth
from app.log.kafka.refusals import RefusedError
from app.log.kafka.tokens.access_tokens import AccessTokens
from app.log.kafka.tokens.client_credentials import ANSWER_BYTES_MAX, ClientCredentials
from app.token_answers import TokenRequestError
from tests.servers.kafka_listeners import SecuredListeners
from tests.servers.token_endpoint import TokenEndpoint, token_endpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates and keys as those of a broker's listeners."""
    place = tmp_path_factory.mktemp("tokens") / "secured"
    SecuredListeners.made(place)
    return place


@pytest.fixture
def endpoint(folder: Path) -> Iterator[TokenEndpoint]:
    with token_endpoint(folder) as running:
        yield running


async def reason(oauth: KafkaOAuth) -> str:
    with pytest.raises(TokenRequestError) as refused:
        await ClientCredentials(oauth).request()
    return refused.value.reason


async def test_a_token_is_issued_to_a_client_with_any_characters_in_its_secret(
    endpoint: TokenEndpoint,
) -> None:
    issued = await ClientCredentials(endpoint.oauth).request()
    assert issued.token.count(".") == 2
    assert issued.lifetime_s == endpoint.lifetime_s


async def test_a_scope_is_asked_for_where_one_is_set(endpoint: TokenEndpoint) -> None:
    await ClientCredentials(endpoint.oauth).request()
    await ClientCredentials(replace(endpoint.oauth, scope="kafka read")).request()
    assert endpoint.scopes == [None, "kafka read"]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"", "it answers 401: check ANGELIA_KAFKA_OAUTH_CLIENT_ID and"),
        (400, b'{"error": "unauthorized_client"}', "(unauthorized_client): check ANGELIA_KAFKA_O"),
        (400, b'{"error": "invalid_scope"}', "check ANGELIA_KAFKA_OAUTH_SCOPE"),
        (404, b"<html>", "it answers 404: check ANGELIA_KAFKA_OAUTH_TOKEN_URL"),
        (302, b"", "it answers 302: check ANGELIA_KAFKA_OAUTH_TOKEN_URL"),
        (503, b"", "it answers 503"),
        (200, b"{}", "no usable access_token"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), "its answer has more than 65,536 bytes"),
    ],
    ids=lambda each: str(each)[:20],
)
async def test_what_is_answered_instead_of_a_token_says_what_to_check(
    endpoint: TokenEndpoint, status: int, body: bytes, words: str
) -> None:
    endpoint.refusal = (status, body)
    assert words in await reason(endpoint.oauth)


async def test_an_answer_that_is_compressed_is_refused_before_it_is_read(
    endpoint: TokenEndpoint,
) -> None:
    endpoint.coding = "gzip"
    # A thousand times as large, once it is decompressed.
    endpoint.refusal = (200, gzip.compress(bytes(ANSWER_BYTES_MAX * 100)))
    assert await reason(endpoint.oauth) == "its answer is compressed, which was not asked for"
    assert endpoint.codings == ["identity"]


async def test_nothing_of_a_secret_is_said(
    endpoint: TokenEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    oauth = replace(endpoint.oauth, client_secret="wr0ng")
    encoded = b64encode(f"{oauth.client_id}:wr0ng".encode()).decode()
    # An endpoint that repeats what it knows.
    endpoint.refusal = (400, json.dumps({"error": encoded, "error_description": "wr0ng"}).encode())
    caplog.set_level(logging.DEBUG)
    with capture_logs() as events:
        async with AccessTokens(ClientCredentials(oauth), origin=str(oauth.token_url)) as tokens:
            await tokens.ready()
            with pytest.raises(RefusedError) as refused:
                tokens.token()
    assert "kafka_token_not_issued" in [event["event"] for event in events]
    said = f"{refused.value} {refused.value.__cause__!r} {oauth!r} {events} {caplog.text}"
    assert "it answers 400" in said
    assert "wr0ng" not in said
    assert encoded not in said

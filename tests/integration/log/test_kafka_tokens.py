"""Tokens by client credentials, from a real endpoint."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.kafka_security import KafkaOAuth
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
        (200, b" " * (ANSWER_BYTES_MAX + 1), "larger than any with a token"),
    ],
    ids=lambda each: str(each)[:20],
)
async def test_what_is_answered_instead_of_a_token_says_what_to_check(
    endpoint: TokenEndpoint, status: int, body: bytes, words: str
) -> None:
    endpoint.refusal = (status, body)
    assert words in await reason(endpoint.oauth)


async def test_nothing_of_a_secret_is_said(endpoint: TokenEndpoint) -> None:
    oauth = replace(endpoint.oauth, client_secret="wr0ng")
    assert "wr0ng" not in await reason(oauth) + repr(oauth)

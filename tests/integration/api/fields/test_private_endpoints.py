"""Endpoints that nothing may be sent to are refused when they are given."""

import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.config import Settings
from tests.cases import for_each
from tests.fakes.keys import KEY


@pytest.fixture
def settings() -> Settings:
    return Settings(allow_private_endpoints=(), secret_key=SecretStr(KEY))


PRIVATE = ["http://127.0.0.1:8080/", "http://[::1]/", "http://169.254.169.254/", "http://0x7f.1/"]


@for_each("endpoint", [*PRIVATE, "http://localhost/", "http://shop.test:25/"])
async def test_a_private_endpoint_creates_nothing(
    api: httpx.AsyncClient, topic: str, endpoint: str
) -> None:
    body = {"name": "billing", "endpoint": endpoint, "supportTeam": "B"}
    with capture_logs() as logs:
        answer = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"][0]["path"] == "endpoint"
    [told] = [each for each in logs if each["event"] == "egress_refused"]
    assert told["host"] == httpx.URL(endpoint).host
    assert "ANGELIA_ALLOW_PRIVATE_ENDPOINTS" in answer.json()["message"]
    assert (await api.get(f"/topics/{topic}/subscriptions")).json() == []


async def test_a_subscription_does_not_move_to_a_private_endpoint(
    api: httpx.AsyncClient, subscription: str
) -> None:
    before = (await api.get(subscription)).json()
    answer = await api.put(subscription, json={"endpoint": PRIVATE[0]})
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert (await api.get(subscription)).json() == before


class TestWithNetworksThatAreAllowed:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings.model_validate({"allow_private_endpoints": "127.0.0.0/8, ::1/128"})

    @pytest.mark.parametrize("endpoint", PRIVATE[:2])
    async def test_endpoints_in_them_may_be_used(
        self, api: httpx.AsyncClient, topic: str, endpoint: str
    ) -> None:
        body = {"name": "billing", "endpoint": endpoint, "supportTeam": "B"}
        answer = await api.post(f"/topics/{topic}/subscriptions", json=body)
        assert answer.status_code == 201

    async def test_others_may_not(self, api: httpx.AsyncClient, topic: str) -> None:
        body = {"name": "billing", "endpoint": PRIVATE[2], "supportTeam": "B"}
        answer = await api.post(f"/topics/{topic}/subscriptions", json=body)
        assert answer.status_code == 400

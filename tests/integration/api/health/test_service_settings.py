"""`GET /settings`: the settings in force, for admins, without secrets."""

import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from tests.fakes.keys import KEY
from tests.integration.api.guarded import guarded

URL = "https://somebody:hush@registry.test/subjects"


@pytest.fixture
def settings() -> Settings:
    return Settings(secret_key=SecretStr(KEY), schema_registry_url=SecretStr(URL), audit_days=17)


async def test_settings_are_listed_with_where_they_are_from_and_without_secrets(
    api: httpx.AsyncClient,
) -> None:
    answer = await api.get("/settings")
    assert KEY not in answer.text
    assert "hush" not in answer.text
    found = {each.pop("name"): each for each in answer.json()}
    assert found["ANGELIA_AUDIT_DAYS"] == {"value": "17", "from": "environment"}
    assert found["ANGELIA_SECRET_KEY"] == {"value": "*****", "from": "environment"}
    assert found["ANGELIA_PORT"] == {"value": "8090", "from": "default"}
    shown = found["ANGELIA_SCHEMA_REGISTRY_URL"]["value"]
    assert shown == "https://somebody:*****@registry.test/subjects"


async def test_only_admins_see_the_settings(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        for scopes in (["read"], ["owner:Shop", "group:shop"]):
            key = await api.key(*scopes)
            assert (await api.http.get("/settings", headers=key)).status_code == 403
        assert (await api.http.get("/settings", headers=api.admin)).status_code == 200

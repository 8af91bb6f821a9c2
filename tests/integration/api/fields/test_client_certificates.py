"""`clientCertificate`: kept encrypted, shown without its key, changed as a whole or in part."""

from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from app.domain.catalogue.client_certificate import ClientCertificate
from tests.fakes.authority import Authority

BODY = {"name": "billing", "endpoint": "https://subscriber.test/"}


@pytest.fixture
def joe(tmp_path: Path) -> ClientCertificate:
    return Authority(tmp_path).client("joe")


def as_given(certificate: ClientCertificate) -> dict[str, Any]:
    return {"certificate": certificate.chain, "privateKey": certificate.private_key}


async def created(
    api: httpx.AsyncClient, topic: str, certificate: ClientCertificate
) -> tuple[str, dict[str, Any]]:
    path = f"/topics/{topic}/subscriptions"
    body = BODY | {"clientCertificate": as_given(certificate)}
    (await api.post(path, json=body)).raise_for_status()
    path = f"{path}/billing"
    return path, (await api.get(path)).json()


async def test_the_key_is_never_shown_and_stored_encrypted(
    api: httpx.AsyncClient, topic: str, joe: ClientCertificate, postgres_url: str
) -> None:
    _, read = await created(api, topic, joe)
    shown = read["clientCertificate"]
    assert (shown["certificate"], shown["privateKey"]) == (joe.chain, "*****")
    assert shown["subject"].startswith("CN=joe")
    assert shown["expiresAt"].endswith("Z")
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        found = await connection.execute("SELECT settings::text FROM subscriptions")
        ((stored,),) = await found.fetchall()
    assert "BEGIN CERTIFICATE" in stored
    assert "PRIVATE KEY" not in stored


async def test_a_masked_key_is_kept_and_one_for_another_certificate_is_not_taken(
    api: httpx.AsyncClient, topic: str, joe: ClientCertificate, tmp_path: Path
) -> None:
    path, read = await created(api, topic, joe)
    sent_back = await api.put(path, json={"clientCertificate": read["clientCertificate"]})
    assert sent_back.status_code == 200
    ann = Authority(tmp_path).client("ann")
    refused = await api.put(path, json={"clientCertificate": {"certificate": ann.chain}})
    assert refused.status_code == 400
    assert refused.json()["details"] == [
        {
            "path": "clientCertificate.privateKey",
            "message": "must be the key of the certificate",
        }
    ]
    renewed = await api.put(path, json={"clientCertificate": as_given(ann)})
    assert renewed.status_code == 200
    shown = (await api.get(path)).json()["clientCertificate"]
    assert shown["subject"].startswith("CN=ann")


async def test_null_takes_it_away(
    api: httpx.AsyncClient, topic: str, joe: ClientCertificate
) -> None:
    path, _ = await created(api, topic, joe)
    await api.put(path, json={"clientCertificate": None})
    assert "clientCertificate" not in (await api.get(path)).json()


async def test_http2_is_asked_for_when_a_subscription_says_so(
    api: httpx.AsyncClient, topic: str
) -> None:
    path = f"/topics/{topic}/subscriptions"
    (await api.post(path, json=BODY | {"http2Enabled": True})).raise_for_status()
    assert (await api.get(f"{path}/billing")).json()["http2Enabled"] is True

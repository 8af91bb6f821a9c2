"""Signing secrets by REST: made or given, shown once, changed over, taken away."""

from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest

from app.domain.catalogue.signing_secrets import SIGNING_SECRETS_MAX
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each

GIVEN = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STRICT = {"Prefer": "handling=strict"}
MASK = "*****"


@pytest.fixture(
    params=["/topics/{}/subscriptions/billing/secrets", "/subscriptions/{}/billing/secrets"]
)
def secrets(request: pytest.FixtureRequest, topic: str, subscription: str) -> str:
    """The path of the subscription's secrets, both ways."""
    assert subscription
    return str(request.param).format(topic)


async def keys_of(database: Database) -> list[str]:
    async with database.transaction() as session:
        found = await SubscriptionRepository(session).get("shop.orders", "billing")
    return [each.key for each in found.signing_secrets]


async def test_a_secret_is_made_and_shown_once(
    api: httpx.AsyncClient, secrets: str, database: Database, postgres_url: str
) -> None:
    assert (await api.get(secrets)).json() == []
    made = await api.post(secrets, json={}, headers=STRICT)
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    assert made.headers["location"].endswith(f"/secrets/{made.json()['id']}")
    key = made.json()["secret"]
    assert key.startswith("whsec_")
    assert await keys_of(database) == [key]
    listed = await api.get(secrets)
    assert listed.json() == [made.json() | {"secret": MASK}]
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT subscriptions::text FROM subscriptions").fetchall()
    assert key not in str(rows)


async def test_a_secret_is_made_for_a_request_without_a_body(
    api: httpx.AsyncClient, secrets: str, database: Database
) -> None:
    made = await api.post(secrets)
    assert made.status_code == 201
    assert await keys_of(database) == [made.json()["secret"]]


async def test_a_secret_that_is_given_is_used(
    api: httpx.AsyncClient, secrets: str, database: Database
) -> None:
    made = await api.post(secrets, json={"secret": GIVEN}, headers=STRICT)
    assert made.json()["secret"] == GIVEN
    assert await keys_of(database) == [GIVEN]


async def test_an_asymmetric_secret_has_a_public_key_that_is_always_shown(
    api: httpx.AsyncClient, secrets: str
) -> None:
    made = (await api.post(secrets, json={"type": "v1a"})).json()
    assert made["secret"].startswith("whsk_")
    assert made["publicKey"].startswith("whpk_")
    (listed,) = (await api.get(secrets)).json()
    assert (listed["type"], listed["secret"]) == ("v1a", MASK)
    assert listed["publicKey"] == made["publicKey"]


async def test_a_new_secret_ends_the_old_one_after_the_overlap(
    api: httpx.AsyncClient, secrets: str, database: Database
) -> None:
    old = (await api.post(secrets, json={})).json()
    new = (await api.post(secrets, json={"overlap": 3600})).json()
    first, second = (await api.get(secrets)).json()
    assert (first["id"], second["id"]) == (new["id"], old["id"])
    assert "expiresAt" not in first
    left = datetime.fromisoformat(second["expiresAt"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    assert await keys_of(database) == [new["secret"], old["secret"]]
    last = (await api.post(secrets, json={"overlap": 0})).json()
    assert [each["id"] for each in (await api.get(secrets)).json()] == [last["id"]]
    assert await keys_of(database) == [last["secret"]]


async def test_a_secret_is_taken_away(
    api: httpx.AsyncClient, secrets: str, database: Database
) -> None:
    kept = (await api.post(secrets, json={"type": "v1a"})).json()
    gone = (await api.post(secrets, json={})).json()
    assert (await api.delete(f"{secrets}/{gone['id']}")).status_code == 200
    assert await keys_of(database) == [kept["secret"]]
    again = await api.delete(f"{secrets}/{gone['id']}")
    assert (again.status_code, again.json()["code"]) == (404, "SIGNING_SECRET_NOT_EXISTS")


async def test_a_change_that_is_taken_back_leaves_deliveries_signed(
    api: httpx.AsyncClient, secrets: str, database: Database
) -> None:
    old = (await api.post(secrets, json={})).json()
    new = (await api.post(secrets, json={"overlap": 3600})).json()
    assert (await api.delete(f"{secrets}/{new['id']}")).status_code == 200
    [left] = (await api.get(secrets)).json()
    assert left["id"] == old["id"]
    assert "expiresAt" not in left
    assert await keys_of(database) == [old["secret"]]


async def test_other_changes_leave_the_secrets_as_they_are(
    api: httpx.AsyncClient, secrets: str, subscription: str, database: Database
) -> None:
    made = (await api.post(secrets, json={})).json()
    read = (await api.get(subscription)).json()
    assert made["secret"] not in str(read)
    assert read["signingSecrets"] == [made | {"secret": MASK}]
    (
        await api.put(subscription, json=read | {"description": "new"}, headers=STRICT)
    ).raise_for_status()
    (await api.put(f"{subscription}/state", json="SUSPENDED")).raise_for_status()
    assert await keys_of(database) == [made["secret"]]


@for_each(
    ("body", "path", "problem"),
    [
        ({"type": "v2"}, "type", "must be 'v1' or 'v1a'"),
        ({"overlap": -1}, "overlap", "must be 0 to 2592000"),
        ({"overlap": 2_592_001}, "overlap", "must be 0 to 2592000"),
        ({"overlap": "1"}, "overlap", None),
        ({"secret": "s3cret"}, "secret", "must be whsec_ and 24 to 64 bytes in base64"),
        ({"secret": GIVEN, "type": "v1a"}, "secret", None),
        ({"secret": MASK}, "secret", None),
        ({"secret": 7}, "secret", None),
    ],
)
async def test_a_wrong_value_is_refused_with_its_field_and_not_repeated(
    api: httpx.AsyncClient, secrets: str, *, body: dict[str, object], path: str, problem: str | None
) -> None:
    refused = await api.post(secrets, json=body)
    assert refused.status_code == 400
    (said,) = refused.json()["details"]
    assert said["path"] == path
    assert problem is None or said["message"] == problem
    assert "s3cret" not in refused.text
    assert (await api.get(secrets)).json() == []


async def test_there_are_not_more_than_a_few(api: httpx.AsyncClient, secrets: str) -> None:
    for _ in range(SIGNING_SECRETS_MAX):
        assert (await api.post(secrets, json={})).status_code == 201
    refused = await api.post(secrets, json={})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "secrets")


async def test_nobody_has_secrets_of_what_does_not_exist(
    api: httpx.AsyncClient, topic: str
) -> None:
    answers = [
        await api.get(f"/topics/{topic}/subscriptions/none/secrets"),
        await api.post(f"/topics/{topic}/subscriptions/none/secrets", json={}),
        await api.delete(f"/topics/{topic}/subscriptions/none/secrets/x"),
    ]
    assert {each.json()["code"] for each in answers} == {"SUBSCRIPTION_NOT_EXISTS"}

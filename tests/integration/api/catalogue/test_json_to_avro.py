"""A JSON topic becomes AVRO, by the requests of Hermes' integration tests, on both logs."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import fastavro
import httpx
import pytest
from pydantic import SecretStr

from app.config import Settings
from app.domain.message import Partition, Record
from app.log.interface import MessageLog
from app.main import create_app
from tests.fakes.keys import KEY
from tests.fakes.memory_log import MemoryLog
from tests.fakes.registry import FakeRegistry
from tests.integration.api.server import given, serving

USER = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "color", "type": ["null", "string"], "default": None},
    ],
}
TEXT = json.dumps(USER)
OTHER = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
NAMED = '{"type": "object", "required": ["name"]}'
USERS = "/topics/shop.users"
SCHEMA = f"{USERS}/schema"
MIGRATION: dict[str, Any] = {"contentType": "AVRO", "migratedFromJsonType": True}
BEFORE = b'{"name": "Bob", "more": [1, 2]}'


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    return real_log


@pytest.fixture
async def users(api: httpx.AsyncClient) -> str:
    """A JSON topic of one partition."""
    body = {"name": "shop.users", "partitions": 1}
    (await api.post("/topics", json=body)).raise_for_status()
    return "shop.users"


async def published(
    api: httpx.AsyncClient, body: bytes, kind: str = "application/json", **headers: str
) -> httpx.Response:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.post(USERS, content=body, headers={"Content-Type": kind} | said)


def avro(**value: object) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, dict(USER), value)
    return written.getvalue()


async def stored(log: MessageLog) -> list[Record]:
    return list((await log.fetch(Partition("shop.users", 0), 0, bytes_max=1 << 20)).records)


def problems(answer: httpx.Response) -> dict[str, str]:
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.text
    return {each["path"]: each["message"] for each in answer.json()["details"]}


@pytest.mark.usefixtures("users")
async def test_a_json_topic_becomes_avro_with_a_schema_in_the_same_request(
    api: httpx.AsyncClient, log: MessageLog
) -> None:
    assert (await published(api, BEFORE)).status_code == 201
    changed = await api.put(USERS, json=MIGRATION | {"schema": TEXT})
    assert changed.status_code == 200, changed.text
    said = ("contentType", "migratedFromJsonType", "schemaVersion")
    assert [changed.json()[each] for each in said] == ["AVRO", True, 1]
    assert (await api.get(USERS)).json() == changed.json()
    assert "angelia-ignored-fields" not in changed.headers
    named = b'{"__metadata": null, "name": "Barney", "age": 35}'
    assert (await published(api, named)).status_code == 201
    raw = avro(name="Fred", age=40, color="red")
    assert (await published(api, raw, "avro/binary", Schema_Version="1")).status_code == 201
    first, second, third = await stored(log)
    assert (first.value, first.header(b"sv")) == (BEFORE, None)
    assert (second.value, second.header(b"sv")) == (avro(name="Barney", age=35), b"1")
    assert (third.value, third.header(b"sv")) == (raw, b"1")
    refused = await published(api, BEFORE)
    assert problems(refused) == {"age": "is missing"}


@pytest.mark.usefixtures("users")
async def test_what_is_no_avro_schema_changes_nothing(api: httpx.AsyncClient) -> None:
    for schema in ("invalid...", '{"type": "nope"}', NAMED):
        assert list(problems(await api.put(USERS, json=MIGRATION | {"schema": schema}))) == [
            "schema"
        ]
    assert list(problems(await api.put(USERS, json=MIGRATION))) == ["schema"]
    assert (await api.get(USERS)).json()["contentType"] == "JSON"


@pytest.mark.usefixtures("users")
async def test_a_schema_that_was_saved_before_is_in_force_from_the_change_on(
    api: httpx.AsyncClient,
) -> None:
    refused = await api.post(SCHEMA, json=USER)
    assert list(problems(refused)) == ["schema"]
    for text, version in ((OTHER, "1"), (TEXT, "2"), (TEXT, "2")):
        saved = await api.post(f"{SCHEMA}?validate=false", json=json.loads(text))
        assert (saved.status_code, saved.headers.get("schema-version")) == (201, version)
    assert (await api.get(SCHEMA)).json() == USER
    versions = (await api.get(f"{SCHEMA}/versions")).json()
    assert [(each["version"], each["inForce"]) for each in versions] == [(2, False)]
    assert (await published(api, BEFORE)).status_code == 201
    kept = await api.put(USERS, json={"description": "users"})
    assert "schema" not in kept.json()
    changed = await api.put(USERS, json=MIGRATION)
    assert changed.status_code == 200, changed.text
    assert (changed.json()["schemaVersion"], json.loads(changed.json()["schema"])) == (2, USER)
    assert problems(await published(api, b"{}")) == {"name": "is missing"}


@pytest.mark.usefixtures("users")
async def test_a_saved_schema_is_deleted_with_the_others(api: httpx.AsyncClient) -> None:
    (await api.post(f"{SCHEMA}?validate=false", json=USER)).raise_for_status()
    assert (await api.delete(SCHEMA)).status_code == 200
    assert (await api.get(SCHEMA)).status_code == 204
    assert list(problems(await api.put(USERS, json=MIGRATION))) == ["schema"]


@pytest.mark.usefixtures("users")
async def test_a_json_schema_ends_with_the_change_and_versions_count_on(
    api: httpx.AsyncClient,
) -> None:
    (await api.put(USERS, json={"schema": NAMED})).raise_for_status()
    (await api.post(f"{SCHEMA}?validate=false", json=USER)).raise_for_status()
    assert (await api.get(SCHEMA)).text == NAMED
    assert (await published(api, b"{}")).status_code == 400
    (await api.post(SCHEMA, json=True)).raise_for_status()
    assert (await published(api, b"{}")).status_code == 201
    changed = await api.put(USERS, json=MIGRATION | {"schema": TEXT})
    assert changed.json()["schemaVersion"] == 2
    versions = (await api.get(f"{SCHEMA}/versions")).json()
    assert [each["inForce"] for each in versions] == [False, True, False]
    assert problems(await published(api, b"{}")) == {"name": "is missing"}
    old = await published(api, b"{}", Schema_Version="1")
    assert (old.status_code, old.json()["code"]) == (400, "SCHEMA_VERSION_DOES_NOT_EXIST")
    added = await api.post(SCHEMA, json=json.loads(OTHER))
    assert (added.status_code, added.headers["schema-version"]) == (201, "4")


@pytest.mark.usefixtures("users")
async def test_the_content_type_and_the_flag_change_together_and_only_this_way(
    api: httpx.AsyncClient,
) -> None:
    assert "migratedFromJsonType" in problems(
        await api.put(USERS, json={"migratedFromJsonType": True})
    )
    unflagged = problems(await api.put(USERS, json={"contentType": "AVRO", "schema": TEXT}))
    assert "together with migratedFromJsonType" in unflagged["contentType"]
    (await api.put(USERS, json=MIGRATION | {"schema": TEXT})).raise_for_status()
    for back in ({"contentType": "JSON"}, {"contentType": "JSON", "migratedFromJsonType": False}):
        refused = problems(await api.put(USERS, json=back))
        assert "an AVRO topic never becomes JSON" in refused["contentType"]
    assert "migratedFromJsonType" in problems(
        await api.put(USERS, json={"migratedFromJsonType": False})
    )
    same = await api.put(USERS, json=(await api.get(USERS)).json())
    assert same.status_code == 200, same.text
    query = {"query": {"migratedFromJsonType": True, "contentType": "AVRO"}}
    assert (await api.post("/topics/query", json=query)).json() == ["shop.users"]


async def test_a_copy_of_a_migrated_topic_is_created_and_works_like_any_avro_topic(
    api: httpx.AsyncClient,
) -> None:
    created = await api.post("/topics", json={"name": "shop.users", "schema": TEXT} | MIGRATION)
    assert created.status_code == 201, created.text
    assert MIGRATION.items() <= (await api.get(USERS)).json().items()
    (await published(api, avro(name="Bob", age=2, color=None), "avro/binary")).raise_for_status()
    [shown] = (await api.get(f"{USERS}/preview")).json()
    assert shown["content"] == '{"name":"Bob","age":2,"color":null}'
    refused = await api.post("/topics", json={"name": "shop.plain", "migratedFromJsonType": True})
    assert "while contentType is JSON" in problems(refused)["migratedFromJsonType"]


@pytest.mark.usefixtures("users")
async def test_messages_of_both_kinds_are_shown_and_found(api: httpx.AsyncClient) -> None:
    (await published(api, BEFORE)).raise_for_status()
    (await published(api, b'"Bob, in person"', "text/plain")).raise_for_status()
    (await api.put(USERS, json=MIGRATION | {"schema": TEXT})).raise_for_status()
    (await published(api, avro(name="Bob", age=2, color=None), "avro/binary")).raise_for_status()
    shown = [each["content"] for each in (await api.get(f"{USERS}/preview")).json()]
    assert shown == ['{"name":"Bob","age":2,"color":null}', '"Bob, in person"', BEFORE.decode()]
    at = [
        (await api.get(f"{USERS}/preview/cluster/primary/partition/0/offset/{offset}")).text
        for offset in (2, 1, 0)
    ]
    assert at == shown
    params = {"path": "$.name", "value": "Bob"}
    found = (await api.get(f"{USERS}/messages", params=params)).json()
    assert sorted(each["offset"] for each in found) == [0, 2]


@pytest.mark.usefixtures("users")
async def test_a_dry_run_of_a_retransmission_counts_messages_of_both_kinds(
    api: httpx.AsyncClient,
) -> None:
    made = {"name": "billing", "endpoint": "http://s.test/", "supportTeam": "B"}
    (await api.post(f"{USERS}/subscriptions", json=made)).raise_for_status()
    (await published(api, BEFORE)).raise_for_status()
    (await api.put(USERS, json=MIGRATION | {"schema": TEXT})).raise_for_status()
    (await published(api, avro(name="Bob", age=2, color=None), "avro/binary")).raise_for_status()
    moved = await api.put(
        f"{USERS}/subscriptions/billing/retransmission?dryRun=true",
        json={"retransmissionDate": "2020-01-01T00:00:00Z"},
    )
    assert moved.status_code == 200, moved.text
    ((partition,),) = moved.json().values()
    assert (partition["topic"], partition["offset"]) == ({"value": "shop.users"}, 0)


# ---- with a registry ----------------------------------------------------------------------------


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


@pytest.fixture
async def with_registry(
    postgres_url: str, registry: FakeRegistry
) -> AsyncIterator[httpx.AsyncClient]:
    """The API with that registry, on a log in memory."""
    async with serving(registry.app()) as served:
        url = SecretStr(str(served.base_url))
        settings = Settings(secret_key=SecretStr(KEY), schema_registry_url=url)
        app = create_app(settings, database_url=postgres_url, log=given(MemoryLog()))
        async with serving(app) as api:
            (await api.post("/topics", json={"name": "shop.users"})).raise_for_status()
            yield api


async def test_the_schema_may_be_in_the_registry_already(
    with_registry: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    assert list(problems(await with_registry.put(USERS, json=MIGRATION))) == ["schema"]
    registry.put("shop.users", OTHER)
    registry.put("shop.users", TEXT)
    changed = await with_registry.put(USERS, json=MIGRATION)
    assert changed.status_code == 200, changed.text
    assert (changed.json()["schema"], changed.json()["schemaVersion"]) == (TEXT, 2)


async def test_a_schema_that_is_saved_before_is_in_the_registry_from_then_on(
    with_registry: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    (await with_registry.post(f"{SCHEMA}?validate=false", json=USER)).raise_for_status()
    ((version, known),) = registry.subjects["shop.users"].items()
    assert (version, known["schemaType"]) == (1, "AVRO")
    changed = await with_registry.put(USERS, json=MIGRATION)
    shown = await with_registry.get(SCHEMA)
    assert (changed.status_code, shown.headers["schema-id"]) == (200, str(known["id"]))


async def test_the_schema_of_the_change_is_registered_as_avro(
    with_registry: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    (await with_registry.put(USERS, json={"schema": NAMED})).raise_for_status()
    changed = await with_registry.put(USERS, json=MIGRATION | {"schema": TEXT})
    assert (changed.status_code, changed.json()["schemaVersion"]) == (200, 2), changed.text
    kinds = [each["schemaType"] for each in registry.subjects["shop.users"].values()]
    assert kinds == ["JSON", "AVRO"]

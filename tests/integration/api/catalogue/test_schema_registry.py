"""Schemas in a registry: a real one as far as HTTP goes."""

import gzip
import io
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import fastavro
import httpx
import pytest
from pydantic import SecretStr, ValidationError
from starlette.responses import JSONResponse, Response

from app.config import Settings
from app.domain.catalogue.schema import ContentType, TopicSchema
from app.domain.catalogue.topic import Topic
from app.domain.errors import SchemaRegistryError
from app.main import create_app
from app.registry import ANSWER_BYTES_MAX, SchemaRegistry, open_registry
from app.schemas.versions import Registered
from app.services.catalogue.schemas import ExternalRegistry, RegistryMirror
from app.services.catalogue.topics import TopicService
from app.services.directory.topics import TopicDirectory
from app.storage.catalogue.changes import changes_since
from app.storage.database import open_database
from tests.fakes.memory_log import MemoryLog
from tests.fakes.registry import FakeRegistry
from tests.integration.api.server import given, serving

FIRST = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
SECOND = (
    '{"type":"record","name":"R","fields":'
    '[{"name":"a","type":"int"},{"name":"b","type":"string","default":""}]}'
)
SUBJECT = "shop.avro-value"


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


@pytest.fixture
async def registry_url(registry: FakeRegistry) -> AsyncIterator[str]:
    async with serving(registry.app()) as client:
        yield str(client.base_url)


@pytest.fixture
async def api(
    postgres_url: str, log: MemoryLog, registry_url: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The API with that registry."""
    settings = Settings(
        schema_registry_url=SecretStr(registry_url.replace("http://", "http://reader:secret@")),
        schema_subject_suffix="-value",
    )
    async with serving(create_app(settings, database_url=postgres_url, log=given(log))) as client:
        yield client


async def created(api: httpx.AsyncClient, **settings: object) -> httpx.Response:
    body = {"name": "shop.avro", "contentType": "AVRO", **settings}
    return await api.post("/topics", json=body)


def avro(text: str, **value: object) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, json.loads(text), value)
    return written.getvalue()


async def published(api: httpx.AsyncClient, body: bytes, version: int) -> httpx.Response:
    headers = {"Content-Type": "avro/binary", "Schema-Version": str(version)}
    return await api.post("/topics/shop.avro", content=body, headers=headers)


async def test_a_schema_is_registered_and_numbered_by_the_registry(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    registry.put(SUBJECT, '"string"')
    assert (await created(api, schema=FIRST)).status_code == 201
    shown = await api.get("/topics/shop.avro/schema")
    assert (shown.headers["schema-version"], shown.headers["schema-id"]) == ("2", "1001")
    assert registry.subjects[SUBJECT][2]["schema"] == FIRST
    assert {said for _, _, said in registry.requests} == {"Basic cmVhZGVyOnNlY3JldA=="}
    added = await api.post("/topics/shop.avro/schema", json=json.loads(SECOND))
    assert (added.status_code, added.headers["schema-version"]) == (201, "3")
    changed = await api.put("/topics/shop.avro", json={"schema": SECOND})
    assert changed.json()["schemaVersion"] == 3


async def test_creating_a_topic_that_exists_registers_nothing(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    await created(api, schema=FIRST)
    answer = await created(api, schema=SECOND)
    assert (answer.status_code, answer.json()["code"]) == (400, "TOPIC_ALREADY_EXISTS")
    assert list(registry.subjects[SUBJECT]) == [1]


async def test_an_avro_topic_takes_the_schema_that_the_registry_has(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    assert (await created(api)).status_code == 400
    registry.put(SUBJECT, FIRST)
    answer = await created(api)
    assert (answer.status_code, answer.json()["schema"]) == (201, FIRST)


async def test_what_others_register_is_known_when_a_publisher_names_it(
    api: httpx.AsyncClient, registry: FakeRegistry, log: MemoryLog
) -> None:
    await created(api, schema=FIRST)
    body = avro(SECOND, a=1, b="x")
    assert (await published(api, avro(FIRST, a=1), 1)).status_code == 201
    registry.put(SUBJECT, SECOND)
    answer = await published(api, body, 2)
    assert answer.status_code == 201, answer.text
    assert log.records("shop.avro")[-1].value == body
    versions = (await api.get("/topics/shop.avro/schema/versions")).json()
    assert [each["version"] for each in versions] == [1, 2]


async def test_what_the_registry_refuses_is_refused_with_its_reason(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    await created(api, schema=FIRST)
    said = {"error_code": 409, "message": "Schema being registered is incompatible"}
    registry.answer = JSONResponse(said, 409)
    answer = await api.post("/topics/shop.avro/schema", json=json.loads(SECOND))
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert "Schema being registered is incompatible" in answer.json()["message"]


async def test_while_the_registry_is_down_only_new_schemas_wait(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    await created(api, schema=FIRST)
    registry.answer = Response("sorry", 500)
    for refused in (
        await api.post("/topics/shop.avro/schema", json=json.loads(SECOND)),
        await api.put("/topics/shop.avro", json={"schema": SECOND}),
        await api.post("/topics", json={"name": "a.b", "schema": "{}"}),
    ):
        code = refused.json()["code"]
        assert (refused.status_code, code) == (503, "SCHEMA_REPOSITORY_INTERNAL_ERROR")
        assert "retry-after" in refused.headers
    assert (await published(api, avro(FIRST, a=1), 1)).status_code == 201
    assert (await published(api, avro(FIRST, a=1), 2)).status_code == 400
    assert (await api.put("/topics/shop.avro", json={"description": "x"})).status_code == 200
    assert (await api.get("/topics/a.b")).status_code == 404


async def test_a_json_schema_is_registered_as_one_and_deleted_with_its_subject(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    (await api.post("/topics", json={"name": "shop.json", "schema": "true"})).raise_for_status()
    assert registry.subjects["shop.json-value"][1]["schemaType"] == "JSON"
    assert (await api.delete("/topics/shop.json/schema")).status_code == 200
    assert registry.subjects == {}


async def test_what_others_register_is_taken_over_but_for_what_is_no_schema_here(
    registry: FakeRegistry, registry_url: str, postgres_url: str
) -> None:
    async with taking_over(postgres_url, registry_url) as (mirror, topics):
        for text in (FIRST, '{"type":"array","items":"null"}', SECOND):
            registry.put("shop.avro", text)
        await topics.create(
            Topic(
                name="shop.avro",
                content_type=ContentType.AVRO,
                schemas=(TopicSchema(version=1, id=1000, text=FIRST),),
            )
        )
        for _ in range(2):
            await mirror.look_at_all()
        found = (await topics.get("shop.avro")).schemas
    assert [(each.version, each.text) for each in found] == [(1, FIRST), (3, SECOND)]
    # The second look asks for no version again.
    asked = [path for _, path, _ in registry.requests if path.endswith("/versions/2")]
    assert len(asked) == 1


class BreakingRegistry:
    """Breaks at one topic, and has one more version of any other one."""

    def __init__(self, broken: str) -> None:
        self._broken = broken

    async def versions(self, topic: str) -> list[int]:
        if topic == self._broken:
            raise RuntimeError("a defect")
        return [1, 2]

    async def version(self, _topic: str, number: int) -> Registered | None:
        return Registered(number, 1_000 + number, SECOND)

    async def register(self, _topic: str, _kind: ContentType, _text: str) -> Registered:
        raise NotImplementedError

    async def require_compatible(self, _topic: str, _kind: ContentType, _text: str) -> None:
        raise NotImplementedError

    async def latest(self, _topic: str) -> Registered | None:
        raise NotImplementedError

    async def delete(self, _topic: str) -> None:
        raise NotImplementedError


async def test_a_topic_whose_look_breaks_keeps_no_other_from_being_looked_at(
    postgres_url: str,
) -> None:
    names = ("shop.first", "shop.second", "shop.third")
    async with mirroring(postgres_url, BreakingRegistry("shop.second")) as (mirror, topics):
        for name in names:
            schemas = (TopicSchema(version=1, id=1_001, text=FIRST),)
            await topics.create(Topic(name=name, content_type=ContentType.AVRO, schemas=schemas))
        await mirror.look_at_all()
        found = [len((await topics.get(name)).schemas) for name in names]
    assert found == [2, 1, 2]


@asynccontextmanager
async def taking_over(
    postgres_url: str, registry_url: str
) -> AsyncIterator[tuple[RegistryMirror, TopicService]]:
    """What takes over schemas, with the topics that it changes."""
    async with (
        open_registry(registry_url) as client,
        mirroring(postgres_url, client) as (mirror, topics),
    ):
        yield mirror, topics


@asynccontextmanager
async def mirroring(
    postgres_url: str, client: ExternalRegistry
) -> AsyncIterator[tuple[RegistryMirror, TopicService]]:
    """What takes over schemas of that registry, with the topics that it changes."""
    async with open_database(postgres_url) as database:

        async def take_in() -> None:
            directory.apply(await changes_since(database, directory.last))

        topics = TopicService(database, MemoryLog(), take_in=take_in, describe=lambda _: {})
        directory = TopicDirectory(topics.get)
        yield RegistryMirror(topics, client, directory), topics


# ---- the client ---------------------------------------------------------------------------------


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[SchemaRegistry]:
    async with open_registry(url) as found:
        yield found


@pytest.mark.parametrize(
    "answer",
    [
        Response("[", 200),
        Response("{}", 200),
        JSONResponse({"version": 0, "id": 1, "schema": "x"}),
        JSONResponse({"version": 1, "id": "1", "schema": "x"}),
        Response("x" * (ANSWER_BYTES_MAX + 1), 200),
        Response("", 302, {"location": "http://127.0.0.1:1/"}),
        Response("no", 401),
    ],
    ids=["no JSON", "no members", "version 0", "a text for an id", "too much", "redirect", "401"],
)
async def test_what_no_registry_answers_is_an_error_that_can_be_read(
    registry: FakeRegistry, registry_url: str, answer: Response
) -> None:
    registry.answer = answer
    async with client_of(registry_url) as client:
        with pytest.raises(SchemaRegistryError, match="The schema registry"):
            await client.latest("a.b")


async def test_an_answer_of_a_registry_that_is_compressed_is_refused(
    registry: FakeRegistry, registry_url: str
) -> None:
    registry.answer = Response(gzip.compress(b"[1]"), headers={"content-encoding": "gzip"})
    async with client_of(registry_url) as client:
        with pytest.raises(SchemaRegistryError, match="is compressed, which was not asked for"):
            await client.versions("a.b")


async def test_a_registry_that_is_not_there_is_an_error_without_its_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    async with client_of(f"http://user:secret@127.0.0.1:{port}") as client:
        with pytest.raises(SchemaRegistryError, match="does not answer") as refused:
            await client.versions("a.b")
    assert "secret" not in refused.value.message


async def test_what_is_not_there_is_none(registry_url: str) -> None:
    async with client_of(registry_url) as client:
        assert await client.versions("a.b") == []
        assert await client.latest("a.b") is None
        assert await client.version("a.b", 1) is None
        await client.delete("a.b")


@pytest.mark.parametrize("url", ["ftp://h/", "registry:8081", "http://"])
def test_an_address_of_another_kind_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValidationError, match="http"):
        Settings(schema_registry_url=SecretStr(url))


async def test_a_prefix_that_is_not_known_here_is_looked_up_at_once_and_refused_if_nobody_has_it(
    api: httpx.AsyncClient, registry: FakeRegistry, log: MemoryLog
) -> None:
    await created(api, schema=FIRST)
    typed = {"Content-Type": "avro/binary"}
    number = registry.subjects[SUBJECT][registry.put(SUBJECT, SECOND)]["id"]
    body = b"\0" + number.to_bytes(4) + avro(SECOND, a=1, b="x")
    answer = await api.post("/topics/shop.avro", content=body, headers=typed)
    assert answer.status_code == 201, answer.text
    (record,) = log.records("shop.avro")
    assert (record.value, record.header(b"sid")) == (body[5:], b"%d" % number)
    unknown = b"\0" + (number + 1).to_bytes(4) + avro(SECOND, a=1, b="x")
    asked = len(registry.requests)
    for _ in range(5):
        refused = await api.post("/topics/shop.avro", content=unknown, headers=typed)
        assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "message")
        assert f"schema {number + 1}" in refused.text
    # The "no" is remembered for a while.
    assert len(registry.requests) - asked < 5
    assert len(log.records("shop.avro")) == 1


async def test_a_schema_that_is_only_tried_is_not_registered(
    api: httpx.AsyncClient, registry: FakeRegistry
) -> None:
    await created(api, schema=FIRST)
    path, change = "/topics/shop.avro?dryRun=true", {"schema": SECOND}
    tried = await api.put(path, json=change)
    assert (tried.status_code, tried.json()["schema"]) == (200, SECOND)
    assert list(registry.subjects[SUBJECT]) == [1]
    assert (await api.get("/topics/shop.avro/schema")).headers["schema-version"] == "1"
    refusal = {"is_compatible": False, "messages": ["b is missing"]}
    registry.answer = JSONResponse(refusal)
    [problem] = (await api.put(path, json=change)).json()["details"]
    assert problem == {
        "path": "schema",
        "message": "is refused by the registry: b is missing",
    }
    registry.answer = JSONResponse(["nonsense"])
    assert (await api.put(path, json=change)).status_code == 503
    registry.answer = None
    registry.subjects.clear()
    assert (await api.put(path, json=change)).status_code == 200

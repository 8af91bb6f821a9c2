"""Schemas of topics over HTTP: versions, what is published against them, what is stored."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import httpx
import orjson
import pytest

from tests.fakes.memory_log import MemoryLog

ORDER = {
    "type": "object",
    "required": ["order"],
    "properties": {
        "order": {"type": "integer"},
        "items": {"type": "array", "items": {"properties": {"price": {"minimum": 0}}}},
    },
}
AVRO = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "order", "type": "long"},
        {"name": "total", "type": ["null", "double"], "default": None},
    ],
}
WIDER = AVRO | {"fields": [*AVRO["fields"], {"name": "note", "type": "string", "default": ""}]}
NARROWER = AVRO | {"fields": [{"name": "order", "type": "string"}]}


def avro(value: Mapping[str, Any], schema: Mapping[str, Any] = AVRO) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, dict(schema), dict(value))
    return written.getvalue()


async def created(api: httpx.AsyncClient, name: str, **settings: object) -> str:
    (await api.post("/topics", json={"name": name, **settings})).raise_for_status()
    return f"/topics/{name}"


@pytest.fixture
async def orders(api: httpx.AsyncClient) -> str:
    """A JSON topic with a schema."""
    return await created(api, "shop.checked", schema=json.dumps(ORDER))


@pytest.fixture
async def records(api: httpx.AsyncClient) -> str:
    """An AVRO topic."""
    return await created(api, "shop.avro", contentType="AVRO", schema=json.dumps(AVRO))


async def published(
    api: httpx.AsyncClient, path: str, body: object, **headers: str
) -> httpx.Response:
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.post(
        path, content=content, headers={"Content-Type": "application/json"} | said
    )


def refused(answer: httpx.Response) -> list[tuple[str, str]]:
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.text
    assert answer.json()["message"].startswith("Invalid message: ")
    return [(each["path"], each["message"]) for each in answer.json()["details"]]


def stored(log: MemoryLog, topic: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [(each.value or b"", dict(each.headers)) for each in log.records(topic)]


# ---- the schema itself --------------------------------------------------------------------------


async def test_a_topic_without_a_schema_has_none_to_show(
    api: httpx.AsyncClient, topic: str
) -> None:
    answer = await api.get(f"/topics/{topic}/schema")
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_schema_is_shown_as_it_was_given_with_its_version_and_its_topic(
    api: httpx.AsyncClient, orders: str
) -> None:
    answer = await api.get(f"{orders}/schema")
    assert (answer.status_code, answer.json(), answer.headers["schema-version"]) == (
        200,
        ORDER,
        "1",
    )
    read = (await api.get(orders)).json()
    assert (read["schema"], read["schemaVersion"]) == (json.dumps(ORDER), 1)
    by_id = await api.get(f"{orders}/schema/ids/{answer.headers['schema-id']}")
    assert by_id.text == answer.text
    assert (await api.get(f"{orders}/schema/versions/1")).text == answer.text
    assert (await api.get(f"{orders}/schema/versions/2")).status_code == 204


async def test_another_text_is_another_version_and_the_same_text_is_none(
    api: httpx.AsyncClient, orders: str
) -> None:
    same = await api.post(f"{orders}/schema", json=ORDER)  # laid out in another way
    assert (same.status_code, same.headers["schema-version"]) == (201, "1")
    other = await api.post(f"{orders}/schema?validate=true", json=ORDER | {"title": "an order"})
    assert (other.status_code, other.content) == (201, b"")
    versions = (await api.get(f"{orders}/schema/versions")).json()
    assert [(each["version"], each["inForce"]) for each in versions] == [(1, False), (2, True)]
    again = await api.post(f"{orders}/schema", json=ORDER | {"title": "an order"})
    assert again.headers["schema-version"] == other.headers["schema-version"]
    assert again.headers["etag"] == other.headers["etag"]


async def test_what_is_no_schema_is_refused_and_changes_nothing(
    api: httpx.AsyncClient, orders: str, records: str
) -> None:
    for path, body in (
        (orders, {"type": "nope"}),
        (orders, {"$ref": "http://127.0.0.1:1/elsewhere"}),
        (orders, {"pattern": "(?=x)"}),
        (records, {"type": "nope"}),
        (records, {"type": "array", "items": "null"}),
    ):
        answer = await api.post(f"{path}/schema", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
        assert [each["path"] for each in answer.json()["details"]] == ["schema"]
        assert len((await api.get(f"{path}/schema/versions")).json()) == 1


async def test_an_avro_schema_that_cannot_read_what_was_written_is_refused(
    api: httpx.AsyncClient, records: str
) -> None:
    answer = await api.post(f"{records}/schema", json=NARROWER)
    assert answer.status_code == 400
    assert "order was long and is string" in answer.json()["details"][0]["message"]
    assert (await api.post(f"{records}/schema", json=WIDER)).headers["schema-version"] == "2"


async def test_an_avro_topic_needs_a_schema_and_keeps_one(
    api: httpx.AsyncClient, records: str
) -> None:
    answer = await api.post("/topics", json={"name": "shop.bare", "contentType": "AVRO"})
    assert [each["path"] for each in answer.json()["details"]] == ["schema"]
    kept = await api.delete(f"{records}/schema")
    assert (kept.status_code, kept.json()["code"]) == (406, "OPERATION_DISABLED")
    for body in ({"schema": None}, {"contentType": "JSON"}):
        assert (await api.put(records, json=body)).status_code == 400


async def test_after_a_schema_is_deleted_any_json_is_taken_and_versions_count_on(
    api: httpx.AsyncClient, orders: str
) -> None:
    assert (await published(api, orders, {})).status_code == 400
    assert (await api.delete(f"{orders}/schema")).status_code == 200
    assert (await published(api, orders, b"{}")).status_code == 201
    refused = await published(api, orders, b"no JSON")
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "message")
    assert (await api.get(f"{orders}/schema")).status_code == 204
    assert "schema" not in (await api.get(orders)).json()
    again = await api.post(f"{orders}/schema", json=ORDER)
    assert again.headers["schema-version"] == "2"
    assert (await published(api, orders, {})).status_code == 400


async def test_a_schema_changes_with_its_topic(api: httpx.AsyncClient, orders: str) -> None:
    changed = await api.put(orders, json={"schema": '{"type": "array"}', "description": "lists"})
    assert (changed.status_code, changed.json()["schemaVersion"]) == (200, 2)
    untouched = await api.put(orders, json={"description": "lists"})
    assert untouched.headers["etag"] == changed.headers["etag"]
    assert (await published(api, orders, [])).status_code == 201
    assert (await api.put(orders, json={"schema": None})).status_code == 200
    assert (await published(api, orders, {})).status_code == 201


async def test_a_schema_is_changed_by_who_has_seen_it(api: httpx.AsyncClient, orders: str) -> None:
    seen = (await api.get(orders)).headers["etag"]
    (await api.put(orders, json={"description": "changed"})).raise_for_status()
    for answer in (
        await api.post(f"{orders}/schema", json=True, headers={"If-Match": seen}),
        await api.delete(f"{orders}/schema", headers={"If-Match": seen}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (412, "PRECONDITION_FAILED")
    assert len((await api.get(f"{orders}/schema/versions")).json()) == 1


# ---- JSON ---------------------------------------------------------------------------------------


async def test_what_is_published_must_be_what_the_schema_asks_for(
    api: httpx.AsyncClient, orders: str, log: MemoryLog
) -> None:
    assert (await published(api, orders, {"order": 1})).status_code == 201
    wrong = await published(api, orders, {"order": 1, "items": [{"price": 1}, {"price": -1}]})
    assert refused(wrong) == [("items.1.price", "-1 is less than the minimum of 0")]
    assert refused(await published(api, orders, {})) == [
        ("message", '"order" is a required property')
    ]
    assert refused(await published(api, orders, b"{"))[0][0] == "message"
    assert [value for value, _ in stored(log, "shop.checked")] == [b'{"order":1}']


async def test_the_data_of_an_event_is_held_against_the_schema(
    api: httpx.AsyncClient, orders: str
) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    kind = "application/cloudevents+json"
    good = await published(api, orders, event | {"data": {"order": 1}}, Content_Type=kind)
    assert good.status_code == 201
    bad = await published(api, orders, event | {"data": {"order": "1"}}, Content_Type=kind)
    assert refused(bad) == [("data.order", '"1" is not of type "integer"')]
    none = await published(api, orders, event, Content_Type=kind)
    assert refused(none)[0][0] == "data"
    binary = {"ce_id": "1", "ce_type": "t", "ce_source": "/s", "ce_specversion": "1.0"}
    assert (await published(api, orders, {"order": 2}, **binary)).status_code == 201
    assert refused(await published(api, orders, {}, **binary))[0][0] == "message"


async def test_each_message_of_a_batch_is_held_against_the_schema(
    api: httpx.AsyncClient, orders: str, log: MemoryLog
) -> None:
    answer = await published(api, f"{orders}/batch", [{"order": 1}, {"order": "2"}, {"order": 3}])
    assert (answer.status_code, [each["status"] for each in answer.json()]) == (
        207,
        [201, 400, 201],
    )
    assert answer.json()[1]["message"].startswith("Invalid message: order ")
    assert [value for value, _ in stored(log, "shop.checked")] == [b'{"order":1}', b'{"order":3}']


async def test_a_publisher_may_name_an_older_version_and_none_that_is_not_there(
    api: httpx.AsyncClient, orders: str
) -> None:
    first = (await api.get(f"{orders}/schema")).headers["schema-id"]
    (await api.post(f"{orders}/schema", json={"required": ["id"]})).raise_for_status()
    body = {"order": 1}
    assert (await published(api, orders, body)).status_code == 400
    assert (await published(api, orders, body, Schema_Version="1")).status_code == 201
    assert (await published(api, orders, body, Schema_Id=first)).status_code == 201
    unknown = await published(api, orders, body, Schema_Version="7")
    assert (unknown.status_code, unknown.json()["code"]) == (400, "SCHEMA_VERSION_DOES_NOT_EXIST")
    wrong = await published(api, orders, body, Schema_Version="one")
    assert wrong.json()["details"][0]["path"] == "schema-version"


# ---- Avro ---------------------------------------------------------------------------------------


async def test_avro_is_stored_as_it_was_sent_with_its_version(
    api: httpx.AsyncClient, records: str, log: MemoryLog
) -> None:
    body = avro({"order": 5, "total": 1.5})
    answer = await published(api, records, body, Content_Type="avro/binary", Schema_Version="1")
    assert answer.status_code == 201, answer.text
    number = (await api.get(f"{records}/schema")).headers["schema-id"]
    ((value, headers),) = stored(log, "shop.avro")
    assert value == body
    assert (headers[b"ct"], headers[b"sv"], headers[b"sid"]) == (
        b"avro/binary",
        b"1",
        number.encode(),
    )


@pytest.mark.parametrize("media", ["application/json", "avro/json", "avro/binary"])
async def test_the_metadata_of_hermes_are_filled_in(
    api: httpx.AsyncClient, log: MemoryLog, media: str
) -> None:
    kind = {"type": "map", "values": "string"}
    schema = AVRO | {"fields": [{"name": "__metadata", "type": kind}, *AVRO["fields"]]}
    settings = {"contentType": "AVRO", "propagatedHeaders": ["Tenant"]}
    path = await created(api, "shop.marked", schema=json.dumps(schema), **settings)
    value = {"__metadata": {"own": "1"}, "order": 5, "total": None}
    body = avro(value, schema) if media == "avro/binary" else value
    answer = await published(api, path, body, Content_Type=media, Tenant="acme")
    assert answer.status_code == 201, answer.text
    ((stored_value, headers),) = stored(log, "shop.marked")
    found: Any = fastavro.schemaless_reader(io.BytesIO(stored_value), schema, None)
    metadata = found.pop("__metadata")
    # The time is taken again when the message is stored.
    assert int(headers[b"ts"]) - 60_000 <= int(metadata.pop("timestamp")) <= int(headers[b"ts"])
    message_id = answer.headers["hermes-message-id"]
    assert metadata == {"own": "1", "messageId": message_id, "Tenant": "acme"}
    assert found == {"order": 5, "total": None}


async def test_json_becomes_avro(api: httpx.AsyncClient, records: str, log: MemoryLog) -> None:
    plain = await published(api, records, {"order": 5, "total": 1.5})
    wrapped = {"order": 5, "total": {"double": 1.5}}
    own = await published(api, records, wrapped, Content_Type="avro/json")
    assert (plain.status_code, own.status_code) == (201, 201)
    assert {value for value, _ in stored(log, "shop.avro")} == {avro({"order": 5, "total": 1.5})}
    assert refused(await published(api, records, wrapped))[0] == (
        "total",
        "must be a number (double)",
    )
    assert refused(await published(api, records, {}))[0] == ("order", "is missing")


async def test_confluents_prefix_says_which_version_it_is(
    api: httpx.AsyncClient, records: str, log: MemoryLog
) -> None:
    number = int((await api.get(f"{records}/schema")).headers["schema-id"])
    (await api.post(f"{records}/schema", json=WIDER)).raise_for_status()
    body = avro({"order": 5, "total": None})
    prefixed = b"\0" + number.to_bytes(4) + body
    answer = await published(api, records, prefixed, Content_Type="avro/binary")
    assert answer.status_code == 201, answer.text
    ((value, headers),) = stored(log, "shop.avro")
    assert (value, headers[b"sv"]) == (body, b"1")


async def test_what_is_no_avro_of_its_version_is_refused(
    api: httpx.AsyncClient, records: str
) -> None:
    for body in (b"", b"\x0a", avro({"order": 1}) + b"\0", b"\x0a\x08"):
        answer = await published(api, records, body, Content_Type="avro/binary")
        assert refused(answer)[0][0] == "message"
    kind = await published(api, records, b"order", Content_Type="text/plain")
    assert kind.json()["details"][0]["path"] == "Content-Type"


async def test_a_batch_of_json_becomes_avro_message_by_message(
    api: httpx.AsyncClient, records: str, log: MemoryLog
) -> None:
    answer = await published(api, f"{records}/batch", [{"order": 1}, {}, {"order": 2}])
    assert [each["status"] for each in answer.json()] == [201, 400, 201]
    assert [value for value, _ in stored(log, "shop.avro")] == [
        avro({"order": 1}),
        avro({"order": 2}),
    ]


async def test_duplicates_are_known_by_what_is_in_avro(
    api: httpx.AsyncClient, log: MemoryLog
) -> None:
    rule = {"expression": "body.order"}
    path = await created(
        api, "shop.once", contentType="AVRO", schema=json.dumps(AVRO), deduplication=rule
    )
    await published(api, path, {"order": 1})
    again = await published(api, path, avro({"order": 1}), Content_Type="avro/binary")
    assert again.headers["angelia-duplicate"] == "true"
    assert len(stored(log, "shop.once")) == 1


async def test_messages_are_found_by_what_is_in_avro_and_shown_as_json(
    api: httpx.AsyncClient, records: str
) -> None:
    await published(api, records, {"order": 1})
    await published(api, records, {"order": 2})
    found = await api.get(f"{records}/messages", params={"path": "$.order", "value": "2"})
    assert found.status_code == 200, found.text
    assert '"order\\":2' in found.text


async def test_previews_show_avro_as_json(api: httpx.AsyncClient, records: str) -> None:
    await published(api, records, {"order": 1})
    (shown,) = (await api.get(f"{records}/preview")).json()
    assert json.loads(shown["content"]) == {"order": 1, "total": None}


async def test_only_subscriptions_of_an_avro_topic_get_avro(
    api: httpx.AsyncClient, records: str, topic: str
) -> None:
    body = {"name": "raw", "endpoint": "http://h.test/", "contentType": "AVRO"}
    answer = await api.post(f"{records}/subscriptions", json=body)
    assert (answer.status_code, answer.json()["contentType"]) == (201, "AVRO")
    refusals = {
        f"/topics/{topic}/subscriptions": body,
        f"{records}/subscriptions": body | {"name": "batch", "deliveryType": "BATCH"},
    }
    for path, wrong in refusals.items():
        answer = await api.post(path, json=wrong)
        assert [each["path"] for each in answer.json()["details"]] == ["contentType"]


def endless() -> str:
    """A schema of which the engine would make more than there is memory for."""
    parts: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2, "unevaluatedProperties": False}
        for n in range(30)
    }
    return json.dumps({"$defs": parts | {"a30": {}}, "$ref": "#/$defs/a0"})


async def test_a_schema_that_would_take_all_memory_is_refused_wherever_it_is_given(
    api: httpx.AsyncClient, orders: str
) -> None:
    answers = [
        await api.post("/topics", json={"name": "shop.endless", "schema": endless()}),
        await api.put(orders, json={"schema": endless()}),
        await api.post(f"{orders}/schema", json=json.loads(endless())),
    ]
    for answer in answers:
        assert answer.status_code == 400
        (detail,) = answer.json()["details"]
        assert detail["path"] == "schema"
        assert "(at #/$defs/a" in detail["message"]


async def test_of_a_batch_that_takes_too_much_work_the_rest_is_to_be_published_again(
    api: httpx.AsyncClient,
) -> None:
    costly = {"items": {"anyOf": [{"type": "string"}] * 2_000 + [{}]}}
    path = await created(api, "shop.costly", schema=json.dumps(costly))
    answer = await api.post(f"{path}/batch", json=[list(range(150))] * 300)
    statuses = [each["status"] for each in answer.json()]
    assert (answer.status_code, statuses) == (207, sorted(statuses))
    assert set(statuses) == {201, 429}
    refused = answer.json()[-1]
    assert refused["code"] == "THROUGHPUT_QUOTA_VIOLATION"
    assert "publish it in another batch" in refused["message"]

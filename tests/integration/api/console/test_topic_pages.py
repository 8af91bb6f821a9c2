"""The pages that change a topic: its settings, its schema, and its end."""

import html
import json
import re
from dataclasses import replace
from urllib.parse import urljoin

import httpx
import pytest

from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from tests.cases import for_each
from tests.integration.api.console.browser import HTML, Browser, Seen, seen
from tests.integration.api.guarded import guarded
from tests.integration.storage.builders import a_cursor, a_worker, beat

TOPIC = "/topics/shop.orders"
FIRST = '{"type": "object", "required": ["order"]}'
SECOND = '{"type": "object", "required": ["order", "item"]}'
AVRO = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


def form_of(page: Seen) -> dict[str, str]:
    """The fields that the page's form has, as a browser would send them."""
    return {
        named["name"]: named.get("value", "")
        for tag, named in page.tags
        if tag == "input" and "name" in named and named.get("type") not in {"hidden", "checkbox"}
    }


def wrong_fields(page: Seen) -> list[str]:
    return [named["name"] for _, named in page.tags if named.get("aria-invalid")]


@pytest.fixture
async def form(browser: Browser, topic: str) -> dict[str, str]:
    assert topic == "shop.orders"
    choices = {"ack": "ALL", "retentionTime.retentionUnit": "DAYS", "trackingMode": "trackingOff"}
    fields = form_of(await browser.look(f"{TOPIC}/edit"))
    return {**fields, **choices}


async def test_a_change_of_a_topic_is_shown_before_it_is_saved(
    browser: Browser, api: httpx.AsyncClient, form: dict[str, str]
) -> None:
    changed = {**form, "trackingMode": "trackingAll", "propagatedHeaders": "X-Tenant, X-Region"}
    shown = await browser.send(f"{TOPIC}/edit", **changed)
    assert "propagatedHeaders" in shown.words
    assert "trackingEnabled" in shown.words
    assert "partitions" not in shown.words
    assert (await api.get(TOPIC)).json()["propagatedHeaders"] == []
    saved = await browser.confirm(shown)
    assert "The change is saved" in saved.words
    now = (await api.get(TOPIC)).json()
    assert now["propagatedHeaders"] == ["X-Tenant", "X-Region"]
    assert now["trackingMode"] == "trackingAll"
    back = await browser.follow(saved, "Undo")
    assert "Suggested: nothing. Now: X-Tenant, X-Region." in back.words
    assert "Suggested: trackingOff. Now: trackingAll." in back.words
    await browser.confirm(await browser.confirm(back))
    assert (await api.get(TOPIC)).json()["propagatedHeaders"] == []
    late = await browser.confirm(shown)
    assert late.response.status_code == 412


async def test_a_form_without_changes_changes_nothing(
    browser: Browser, form: dict[str, str]
) -> None:
    assert "Nothing would be different" in (await browser.send(f"{TOPIC}/edit", **form)).words


@for_each(
    ("change", "field"),
    [
        ({"partitions": "1"}, "partitions"),
        ({"partitions": "many"}, "partitions"),
        ({"retentionTime.duration": "0"}, "retentionTime.duration"),
        ({"alternateTopic": "no.such"}, "alternateTopic"),
        ({"more": "17"}, "more"),
        ({"more": "{no JSON"}, "more"),
    ],
)
async def test_a_wrong_change_of_a_topic_is_refused_at_its_field(
    browser: Browser, form: dict[str, str], change: dict[str, str], field: str
) -> None:
    wrong = await browser.send(f"{TOPIC}/edit", **{**form, **change})
    assert wrong.response.status_code == 400
    assert wrong_fields(wrong) == [field]
    assert change[field] in wrong.attributes("input", "value") or change[field] in wrong.words


async def test_other_fields_of_the_api_are_changed_as_a_merge_patch(
    browser: Browser, api: httpx.AsyncClient, form: dict[str, str]
) -> None:
    more = json.dumps({"subscribingRestricted": True})
    await browser.confirm(await browser.send(f"{TOPIC}/edit", **{**form, "more": more}))
    assert (await api.get(TOPIC)).json()["subscribingRestricted"] is True


@pytest.mark.usefixtures("topic")
async def test_a_schema_is_checked_before_it_becomes_a_version(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    path = f"{TOPIC}/schema"
    assert "There is no schema" in (await browser.look(path)).words
    checked = await browser.send(path, do="check", schema=FIRST)
    assert "It fits, and would be version 1" in checked.words
    assert (await api.get(path)).status_code == 204
    await browser.confirm(checked, do="save")
    assert (await api.get(path)).json() == json.loads(FIRST)
    again = await browser.send(path, do="check", schema=FIRST)
    assert "It is the same as version 1" in again.words
    second = await browser.send(path, do="check", schema=SECOND)
    assert "would be version 2" in second.words
    assert "<ins>    &#34;item&#34;</ins>" in second.text
    await browser.confirm(second, do="save")
    assert "held against version 2" in (await browser.look(path)).words
    old = await browser.look(f"{path}?version=1")
    assert "Version 1" in old.words
    ended = await browser.send(path, do="end")
    assert "The change is saved" in ended.words
    assert (await api.get(path)).status_code == 204


async def test_an_avro_schema_that_cannot_read_what_is_there_is_refused_at_its_field(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    body = {"name": "shop.orders", "contentType": "AVRO", "schema": json.dumps(AVRO)}
    (await api.post("/topics", json=body)).raise_for_status()
    narrower = {**AVRO, "fields": [{"name": "b", "type": "string"}]}
    wrong = await browser.send(f"{TOPIC}/schema", do="check", schema=json.dumps(narrower))
    assert wrong.response.status_code == 400
    assert wrong_fields(wrong) == ["schema"]
    assert "cannot read messages of version 1" in wrong.words
    assert "Take any JSON" not in wrong.words


@pytest.mark.usefixtures("topic")
@for_each("text", ["", "   ", "{no JSON", '{"type": "no such type"}'])
async def test_what_is_no_schema_is_refused_at_its_field(browser: Browser, text: str) -> None:
    wrong = await browser.send(f"{TOPIC}/schema", do="check", schema=text)
    assert wrong.response.status_code == 400
    assert wrong_fields(wrong) == ["schema"]


async def test_a_topic_is_deleted_only_after_its_name_was_entered(
    browser: Browser, api: httpx.AsyncClient, subscription: str
) -> None:
    path = f"{TOPIC}/delete"
    shown = await browser.look(path)
    assert "Its subscriptions have to go first" in shown.words
    refused = await browser.send(path, confirmed="shop.orders")
    assert refused.response.status_code == 412 or "subscriptions" in refused.words
    assert (await api.get(TOPIC)).status_code == 200
    (await api.delete(subscription)).raise_for_status()
    kept = await browser.send(path, confirmed="shop")
    assert "Enter shop.orders to delete it" in kept.words
    gone = await browser.send(path, confirmed="shop.orders")
    assert gone.response.url.path == "/console/topics"
    assert (await api.get(TOPIC)).status_code == 404


async def test_a_reader_without_rights_is_offered_no_change_of_a_topic(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await api.make("/topics", {"name": "shop.orders", "owner": {"id": "Shop"}})
        made = await api.http.post(
            "/keys", json={"name": "look", "scopes": ["read"]}, headers=api.admin
        )
        browser = Browser(http=api.http)
        await browser.sign_in(made.json()["key"])
        for path in ("edit", "schema", "delete"):
            page = await browser.look(f"{TOPIC}/{path}")
            assert page.response.status_code == 200
            assert "may not" in page.words
            forms = [named for tag, named in page.tags if tag == "form"]
            assert not [each for each in forms if each.get("method") == "post"][1:], path
        refused = await browser.send(f"{TOPIC}/schema", do="save", schema=FIRST, etag="")
        assert refused.response.status_code == 403


async def test_partitions_are_shown_with_their_owners(
    browser: Browser, api: httpx.AsyncClient, topic: str, database: Database
) -> None:
    alone = await browser.look(f"{TOPIC}/partitions")
    assert "It has 2 partitions. Nobody subscribes" in alone.words
    body = {"name": "billing", "endpoint": "http://subscriber.test/"}
    (await api.post(f"{TOPIC}/subscriptions", json=body)).raise_for_status()
    async with database.transaction() as session:
        billing = await SubscriptionRepository(session).get(topic, "billing")
    await beat(database, a_worker("w-1"))
    async with database.transaction() as session:
        cursor = replace(a_cursor(billing.id, 1), topic=topic, worker_id="w-1")
        await StatusRepository(session).write([cursor], [])
    page = await browser.look(f"{TOPIC}/partitions")
    assert "0 0 nobody 1 0 w-1" in page.words, page.words
    operations = await browser.look("/operations")
    [link] = [each for each in operations.attributes("a", "href") if each.endswith("workers/w-1")]
    worker = seen(await api.get(urljoin(str(operations.response.url), link), headers=HTML))
    assert "Topic Partitions shop.orders 1" in worker.words, worker.words
    gone = await browser.look("/operations/workers/w-9")
    assert gone.response.status_code == 404
    assert "No worker w-9 is running" in gone.words


async def test_texts_of_others_in_settings_and_schemas_do_no_harm(
    browser: Browser, api: httpx.AsyncClient
) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    schema = json.dumps({"type": "object", "description": hostile}, ensure_ascii=False)
    body = {"name": "shop.orders", "description": hostile, "schema": schema}
    (await api.post("/topics", json=body)).raise_for_status()
    for path in ("", "/edit", "/schema", "/delete", "/partitions"):
        page = await browser.look(f"{TOPIC}{path}")
        assert page.response.status_code == 200
        assert "<script>alert" not in page.text
        # A field of a form has a text as it is: otherwise sending it back would change it.
        assert "\u202e" not in re.sub(r"<textarea.*?</textarea>", "", page.text, flags=re.DOTALL)
    tried = await browser.send(f"{TOPIC}/schema", do="check", schema=schema.replace("(1)", "(2)"))
    assert "would be version 2" in tried.words
    assert "<script>alert" not in tried.text


async def test_invisible_characters_of_a_text_survive_another_change(
    browser: Browser, api: httpx.AsyncClient, form: dict[str, str]
) -> None:
    description = 'a family: \U0001f468\u200d\U0001f469\u200d\U0001f467, "quoted" & <b>'
    (await api.put(TOPIC, json={"description": description})).raise_for_status()
    shown = await browser.look(f"{TOPIC}/edit")
    area = re.search(r'name="description"[^>]*>(.*?)</textarea>', shown.text, re.DOTALL)
    assert area is not None
    kept = html.unescape(area[1])
    assert kept == description
    changed = await browser.send(
        f"{TOPIC}/edit", **{**form, "description": kept, "throughputQuota": "50000"}
    )
    await browser.confirm(changed)
    now = (await api.get(TOPIC)).json()
    assert (now["description"], now["throughputQuota"]) == (description, 50_000)

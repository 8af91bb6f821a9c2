"""Audit events: every change, who made it, and nothing that is secret."""

import json
import logging

import pytest

from tests.fakes.memory_log import MemoryLog
from tests.integration.api.guarded import Guarded, guarded

PATH = "/topics/shop.orders/subscriptions"
BILLING = {
    "name": "billing",
    "endpoint": "http://user:hush@h.test/",
    "headers": [{"name": "X-Api-Key", "value": "hush-too"}],
    "owner": {"id": "Billing"},
}


async def with_life(api: Guarded) -> None:
    """A topic and a subscription are made, changed and deleted by their teams."""
    shop = await api.key("group:shop", "owner:Shop", name="shop")
    billing = await api.key("owner:Billing", name="billing")
    topic = {"name": "shop.orders", "owner": {"id": "Shop"}}
    requests: list[tuple[dict[str, str], str, str, object]] = [
        (shop, "POST", "/topics", topic),
        (billing, "POST", PATH, BILLING),
        (billing, "PUT", f"{PATH}/billing", {"description": "what we bill"}),
        # Changes nothing, and is no event.
        (billing, "PUT", f"{PATH}/billing", {"description": "what we bill"}),
        (shop, "PUT", f"{PATH}/billing/state", "SUSPENDED"),
        (billing, "PUT", f"{PATH}/billing/retransmission", {"retransmissionDate": "-1h"}),
        (shop, "PUT", "/topics/shop.orders", {"description": "orders"}),
        (billing, "DELETE", f"{PATH}/billing", None),
        (shop, "DELETE", "/topics/shop.orders", None),
        (shop, "DELETE", "/groups/shop", None),
    ]
    for headers, method, path, body in requests:
        answer = await api.http.request(method, path, json=body, headers=headers)
        assert answer.is_success, (method, path, answer.text)


async def test_every_change_is_an_event_with_its_author(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await with_life(api)
        events = [
            (event["actor"], event["action"], event["kind"], event["name"])
            for event in reversed(await api.events())
            if event["kind"] != "key"
        ]
        billing = ("subscription", "shop.orders/billing")
        assert events == [
            ("shop", "CREATED", "group", "shop"),
            ("shop", "CREATED", "topic", "shop.orders"),
            ("billing", "CREATED", *billing),
            ("billing", "UPDATED", *billing),
            ("shop", "UPDATED", *billing),
            ("billing", "MOVED", *billing),
            ("shop", "UPDATED", "topic", "shop.orders"),
            ("billing", "REMOVED", *billing),
            ("shop", "REMOVED", "topic", "shop.orders"),
            ("shop", "REMOVED", "group", "shop"),
        ]


async def test_an_event_says_what_was_before_and_after(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await with_life(api)
        events = await api.events(name="shop.orders/billing", action="updated")
        [suspended, described] = [dict(event) for event in events]
        before, after = described["before"], described["after"]
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        assert (before["description"], after["description"]) == ("", "what we bill")
        assert after["endpoint"] == "http://user:*****@h.test/"
        assert after["headers"] == [{"name": "X-Api-Key", "value": "*****"}]
        assert dict(suspended["after"])["state"] == "SUSPENDED"  # type: ignore[call-overload]  # JSON
        [removed] = await api.events(name="shop.orders/billing", action="REMOVED")
        assert "after" not in removed


async def test_events_are_found_by_what_they_are_about_and_in_pages(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        await with_life(api)
        everything = await api.events()
        found, address = [], "/audit?limit=3"
        while address:
            page = await api.http.get(address, headers=api.admin)
            found += page.json()
            address = page.links.get("next", {}).get("url", "")
        assert found == everything
        assert {event["kind"] for event in await api.events(actor="billing")} == {"subscription"}
        assert await api.events(until="2020-01-01T00:00:00Z") == []
        assert len(await api.events(kind="group")) == 2
        for wrong in ({"action": "x"}, {"after": "x"}, {"since": "x"}):
            refused = await api.http.get("/audit", params=wrong, headers=api.admin)
            assert [each["path"] for each in refused.json()["details"]] == list(wrong)


async def test_what_was_refused_or_did_not_happen_is_no_event(postgres_url: str) -> None:
    async with guarded(postgres_url, log=MemoryLog()) as api:
        reader = await api.key("read")
        count = len(await api.events())
        await api.http.post("/groups", json={"groupName": "a"}, headers=reader)
        await api.http.post("/groups", json={"groupName": "a b"}, headers=api.admin)
        await api.http.delete("/topics/no.such", headers=api.admin)
        assert len(await api.events()) == count


async def test_no_key_is_in_an_event_a_log_or_an_answer_but_its_own(
    postgres_url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with guarded(postgres_url) as api:
        await with_life(api)
        stranger = await api.key("read", name="stranger")
        tokens = [headers["Authorization"].split("_", 2)[2] for headers in (api.admin, stranger)]
        answers = [
            await api.http.get(path, headers=headers)
            for path in ("/keys", "/audit", "/nowhere", "/topics?limit=x")
            for headers in (api.admin, stranger, {"Authorization": "Bearer ang_x"})
        ]
    out, err = capfd.readouterr()
    written = [caplog.text, out, err, *(answer.text for answer in answers)]
    assert not [text for text in written for token in (*tokens, "hush") if token in text]


async def test_keys_are_made_and_revoked_in_events_too(postgres_url: str) -> None:
    async with guarded(postgres_url) as api:
        made = await api.make("/keys", {"name": "shop", "scopes": ["read"]})
        await api.http.delete(made.headers["Location"], headers=api.admin)
        events = await api.events(kind="key", name=made.json()["id"])
        assert [event["action"] for event in events] == ["REMOVED", "CREATED"]
        assert {event["actor"] for event in events} == {"first"}
        assert json.dumps(events).count("shop") == 2

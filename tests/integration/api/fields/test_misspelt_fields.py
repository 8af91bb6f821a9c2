"""Fields that no object has: refused in ours, ignored and named in those of Hermes."""

from typing import Any

import httpx
import pytest

NEW = {"name": "new", "endpoint": "http://h.test/"}
SUBSCRIPTIONS = "/topics/shop.orders/subscriptions"
BILLING = f"{SUBSCRIPTIONS}/billing"

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (
        SUBSCRIPTIONS,
        NEW | {"circuitBreaker": {"onErrorTypes": ["TIMEOUT"]}},
        "circuitBreaker.onErrorTypes",
        "errorTypes",
    ),
    (SUBSCRIPTIONS, NEW | {"fetch": {"pollsize": 1}}, "fetch.pollsize", "pollSize"),
    (SUBSCRIPTIONS, NEW | {"deadLetter": {"topics": "a.b"}}, "deadLetter.topics", "topic"),
    (
        SUBSCRIPTIONS,
        NEW | {"filters": [{"type": "header", "headers": "h"}]},
        "filters.0.headers",
        "header",
    ),
    (
        "/topics",
        {"name": "a.b", "deduplication": {"expresion": "id"}},
        "deduplication.expresion",
        "expression",
    ),
    ("/keys", {"name": "shop", "scopes": ["read"], "expires_in": 5}, "expires_in", "expiresIn"),
    ("/jobs", {"kind": "UNDELIVERED_ANALYTICS", "topics": "a.b"}, "topics", "topic"),
    (f"{BILLING}/secrets", {"overlaps": 5}, "overlaps", "overlap"),
    (f"{BILLING}/simulate", {"inflight": 5}, "inflight", "inflightSize"),
    (f"{BILLING}/retransmission", {"only": "discarded", "reasons": "x"}, "reasons", "reason"),
]


@pytest.mark.usefixtures("subscription")
async def test_objects_of_ours_refuse_them_and_name_the_nearest(api: httpx.AsyncClient) -> None:
    for path, body, field, meant in REFUSED:
        refused = await api.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "VALIDATION_ERROR"), path
        message = f"is not a known field: did you mean {meant}?"
        assert {"path": field, "message": message} in refused.json()["details"], path


async def test_a_change_refuses_them_as_a_creation_does(
    api: httpx.AsyncClient, subscription: str
) -> None:
    before = (await api.get(subscription)).json()
    refused = await api.put(subscription, json={"circuitBreaker": {"threshold": 3}})
    assert refused.status_code == 400
    assert "did you mean errorsThreshold?" in refused.json()["message"]
    assert (await api.get(subscription)).json() == before


async def test_objects_of_hermes_ignore_them_and_the_header_names_the_nearest(
    api: httpx.AsyncClient, subscription: str
) -> None:
    made = await api.post(
        "/topics", json={"name": "shop.more", "retentionTime": {"durations": 2}, "acks": "ALL"}
    )
    assert made.status_code == 201
    assert made.headers["Angelia-Ignored-Fields"] == (
        "retentionTime.durations; did-you-mean=duration, acks; did-you-mean=ack"
    )
    changed = await api.put(subscription, json={"messageTtl": 5, "color": "red"})
    assert changed.status_code == 200
    assert changed.headers["Angelia-Ignored-Fields"] == (
        "messageTtl; did-you-mean=subscriptionPolicy.messageTtl, color"
    )


async def test_what_is_missing_is_told_in_our_words(api: httpx.AsyncClient) -> None:
    refused = await api.post("/keys", json={"name": "shop", "scopes": []})
    assert refused.json()["details"] == [{"path": "scopes", "message": "must have at least 1 item"}]
    refused = await api.get("/topics", params={"tracked": "perhaps"})
    assert refused.json()["details"] == [{"path": "tracked", "message": "must be true or false"}]

"""What Hermes has for many data centres and for tools around it, and what there is instead."""

import httpx
import pytest

SYNC = "/consistency/sync"
INCONSISTENT = "/consistency/inconsistencies"
BILLING = "topics/shop.orders/subscriptions/billing"

# Each request, and the status with the body that it gets, or the code of its error.
ANSWERS: list[tuple[str, str, int, object]] = [
    ("GET", "/consistency/groups", 200, ["shop"]),
    ("GET", f"{INCONSISTENT}/groups?groupNames=shop&groupNames=none", 200, []),
    ("GET", f"{INCONSISTENT}/topics", 200, []),
    ("DELETE", f"{INCONSISTENT}/topics?topicName=shop.orders", 400, "VALIDATION_ERROR"),
    ("DELETE", f"{INCONSISTENT}/topics?topicName=shop.none", 404, "TOPIC_NOT_EXISTS"),
    ("POST", f"{SYNC}/groups/shop?primaryDatacenter=primary-dc", 200, None),
    ("POST", f"{SYNC}/topics/shop.orders", 200, None),
    ("POST", f"{SYNC}/{BILLING}", 200, None),
    ("POST", f"{SYNC}/groups/none", 404, "GROUP_NOT_EXISTS"),
    ("POST", f"{SYNC}/topics/shop.none", 404, "TOPIC_NOT_EXISTS"),
    ("POST", f"{SYNC}/topics/shop.orders/subscriptions/no", 400, "SUBSCRIPTION_NOT_EXISTS"),
    (
        "POST",
        f"{SYNC}/groups/shop?primaryDatacenter=dc2",
        404,
        "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION",
    ),
    ("GET", "/topics/shop.orders/offline-clients-source", 404, "IMPLEMENTATION_ABSENT"),
    ("GET", "/topics/shop.none/offline-clients-source", 404, "TOPIC_NOT_EXISTS"),
    ("GET", "/dashboards/topics/shop.orders", 404, "IMPLEMENTATION_ABSENT"),
    ("GET", f"/dashboards/{BILLING}", 404, "IMPLEMENTATION_ABSENT"),
    ("GET", "/dashboards/topics/shop.none", 404, "TOPIC_NOT_EXISTS"),
    ("GET", "/tracking-urls/topics/shop.orders", 200, []),
    ("GET", f"/tracking-urls/{BILLING}", 200, []),
    ("GET", "/tracking-urls/topics/shop.orders/subscriptions/no", 400, "SUBSCRIPTION_NOT_EXISTS"),
]


@pytest.mark.usefixtures("subscription")
async def test_each_is_answered_as_it_is_here(api: httpx.AsyncClient) -> None:
    wrong = {}
    for method, path, status, expected in ANSWERS:
        answer = await api.request(method, path, follow_redirects=True)
        body = answer.json() if answer.content else None
        said = body["code"] if isinstance(body, dict) else body
        if (answer.status_code, said) != (status, expected):
            wrong[f"{method} {path}"] = answer.text
    assert wrong == {}


async def test_only_what_is_traced_is_listed_when_that_is_asked_for(
    api: httpx.AsyncClient, topic: str
) -> None:
    path = f"/topics/{topic}/subscriptions"
    await api.post("/topics", json={"name": "shop.traced", "trackingEnabled": True})
    for name, mode in (("a", "trackingAll"), ("b", "trackingOff"), ("c", "discardedOnly")):
        body = {"name": name, "endpoint": "http://h.test/", "trackingMode": mode}
        (await api.post(path, json=body)).raise_for_status()
    assert (await api.get("/topics?tracked=true")).json() == ["shop.traced"]
    assert (await api.get("/topics?tracked=true&groupName=none")).json() == []
    assert (await api.get(f"{path}?tracked=true")).json() == ["a", "c"]
    assert (await api.get(f"{path}?tracked=false")).json() == ["a", "b", "c"]


async def test_the_counts_of_a_life_are_given_alone_too(
    api: httpx.AsyncClient, subscription: str
) -> None:
    persistent = await api.get(f"{subscription}/metrics/persistent")
    assert persistent.json() == {"delivered": 0, "discarded": 0, "volume": 0}

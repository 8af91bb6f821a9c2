from base64 import urlsafe_b64encode
from typing import Any, NamedTuple

import httpx
import pytest

SUBSCRIPTIONS = "/topics/shop.orders/subscriptions"
BILLING = f"{SUBSCRIPTIONS}/billing"
JSON = "application/json"


class Bad(NamedTuple):
    """A request that is refused, and how."""

    method: str
    path: str
    content: str
    status: int
    code: str
    says: str
    content_type: str = JSON


NEW = '{"name": "new", "endpoint": "http://h.test/", "supportTeam": "T"'

REQUESTS = {
    "malformed JSON": Bad("POST", "/topics", '{"name": ', 400, "FORMAT_ERROR", "not JSON"),
    "no body": Bad("POST", "/topics", "", 400, "FORMAT_ERROR", "not JSON"),
    "a list": Bad("POST", "/topics", "[]", 400, "FORMAT_ERROR", "JSON object"),
    "too deep": Bad("POST", "/topics", "[" * 100_000, 400, "FORMAT_ERROR", "not JSON"),
    "many levels": Bad(
        "POST", "/topics", '{"x":' * 1000 + "1" + "}" * 1000, 400, "FORMAT_ERROR", "100 levels"
    ),
    "a zero in a topic": Bad(
        "PUT", "/topics/shop.orders", r'{"description": "\u0000"}', 400, "VALIDATION_ERROR", "zero"
    ),
    "a zero in an owner": Bad(
        "PUT", BILLING, r'{"owner": {"id": "\u0000"}}', 400, "VALIDATION_ERROR", "owner.id"
    ),
    "a zero in a name": Bad("GET", "/topics/shop.%00", "", 400, "VALIDATION_ERROR", "path"),
    "publishing to a zero": Bad("POST", "/topics/shop.%00", "{}", 400, "VALIDATION_ERROR", "path"),
    "publishing with a zero": Bad(
        "POST", "/topics/shop.orders?wait=%00", "{}", 400, "VALIDATION_ERROR", "wait"
    ),
    "a zero in a parameter": Bad(
        "GET", "/audit?limit=1&name=a%00b", "", 400, "VALIDATION_ERROR", "name"
    ),
    "a zero in a parameter's name": Bad(
        "GET", "/topics?%00=1", "", 400, "VALIDATION_ERROR", "query"
    ),
    "a topic of a group of dots": Bad(
        "POST", "/topics", '{"name": "...orders"}', 400, "VALIDATION_ERROR", "group.topic"
    ),
    "a group of dots": Bad(
        "POST", "/groups", '{"groupName": ".."}', 400, "GROUP_NAME_IS_INVALID", ".."
    ),
    "a subscription of dots": Bad(
        "POST",
        SUBSCRIPTIONS,
        '{"name": "..", "endpoint": "http://h.test/"}',
        400,
        "VALIDATION_ERROR",
        "dots",
    ),
    "not UTF-8": Bad("POST", "/topics", '{"name": "\udcff"}', 400, "FORMAT_ERROR", "not JSON"),
    "another media type": Bad(
        "POST", "/topics", "name=x", 415, "VALIDATION_ERROR", "application/json", "text/plain"
    ),
    "no media type": Bad("POST", "/topics", "{}", 415, "VALIDATION_ERROR", "not absent", ""),
    "too large": Bad("POST", "/topics", " " * 1_048_577, 413, "VALIDATION_ERROR", "1048576"),
    "no name": Bad("POST", "/topics", "{}", 400, "VALIDATION_ERROR", "name"),
    "a name without group": Bad(
        "POST", "/topics", '{"name": "orders"}', 400, "VALIDATION_ERROR", "group.topic"
    ),
    "a name of other characters": Bad(
        "POST", "/topics", '{"name": "shop.or/ders"}', 400, "VALIDATION_ERROR", "letters"
    ),
    "a duplicate topic": Bad(
        "POST", "/topics", '{"name": "shop.orders"}', 400, "TOPIC_ALREADY_EXISTS", "shop.orders"
    ),
    "a topic of Avro": Bad(
        "POST",
        "/topics",
        '{"name": "a.b", "contentType": "AVRO"}',
        400,
        "VALIDATION_ERROR",
        "contentType",
    ),
    "a restricted topic": Bad(
        "POST",
        "/topics",
        '{"name": "a.b", "auth": {"enabled": "yes"}}',
        400,
        "VALIDATION_ERROR",
        "auth",
    ),
    "a wrong type in a topic": Bad(
        "POST",
        "/topics",
        '{"name": "a.b", "maxMessageSize": "big"}',
        400,
        "VALIDATION_ERROR",
        "maxMessageSize",
    ),
    "an endless retention": Bad(
        "POST",
        "/topics",
        '{"name": "a.b", "retentionTime": {"duration": 99999999999999}}',
        400,
        "VALIDATION_ERROR",
        "retentionTime.duration",
    ),
    "an unknown topic": Bad("GET", "/topics/no.such", "", 404, "TOPIC_NOT_EXISTS", "no.such"),
    "changing an unknown topic": Bad(
        "PUT", "/topics/no.such", "{}", 404, "TOPIC_NOT_EXISTS", "no.such"
    ),
    "deleting an unknown topic": Bad(
        "DELETE", "/topics/no.such", "", 404, "TOPIC_NOT_EXISTS", "no.such"
    ),
    "a wrong group name": Bad(
        "POST", "/groups", '{"groupName": "a b"}', 400, "GROUP_NAME_IS_INVALID", "a b"
    ),
    "a duplicate group": Bad(
        "POST", "/groups", '{"groupName": "shop"}', 400, "GROUP_ALREADY_EXISTS", "shop"
    ),
    "a group name that is a number": Bad(
        "POST", "/groups", '{"groupName": 7}', 400, "VALIDATION_ERROR", "groupName"
    ),
    "an unknown group": Bad("GET", "/groups/none", "", 404, "GROUP_NOT_EXISTS", "none"),
    "deleting an unknown group": Bad("DELETE", "/groups/none", "", 404, "GROUP_NOT_EXISTS", "none"),
    "a subscription of an unknown topic": Bad(
        "POST", "/topics/no.such/subscriptions", NEW + "}", 404, "TOPIC_NOT_EXISTS", "no.such"
    ),
    "subscriptions of an unknown topic": Bad(
        "GET", "/topics/no.such/subscriptions", "", 404, "TOPIC_NOT_EXISTS", "no.such"
    ),
    "an unknown subscription": Bad(
        "GET", f"{SUBSCRIPTIONS}/none", "", 400, "SUBSCRIPTION_NOT_EXISTS", "none"
    ),
    "changing an unknown subscription": Bad(
        "PUT", f"{SUBSCRIPTIONS}/none", "{}", 400, "SUBSCRIPTION_NOT_EXISTS", "none"
    ),
    "deleting an unknown subscription": Bad(
        "DELETE", f"{SUBSCRIPTIONS}/none", "", 400, "SUBSCRIPTION_NOT_EXISTS", "none"
    ),
    "figures of an unknown subscription": Bad(
        "GET", f"{SUBSCRIPTIONS}/none/metrics", "", 400, "SUBSCRIPTION_NOT_EXISTS", "none"
    ),
    "a duplicate subscription": Bad(
        "POST",
        SUBSCRIPTIONS,
        '{"name": "billing", "endpoint": "http://h.test/"}',
        400,
        "SUBSCRIPTION_ALREADY_EXISTS",
        "billing",
    ),
    "a subscription without endpoint": Bad(
        "POST", SUBSCRIPTIONS, '{"name": "new"}', 400, "VALIDATION_ERROR", "endpoint"
    ),
    "another protocol": Bad(
        "POST",
        SUBSCRIPTIONS,
        '{"name": "new", "endpoint": "ftp://h.test/"}',
        400,
        "VALIDATION_ERROR",
        "http://",
    ),
    "an endpoint without host": Bad(
        "POST",
        SUBSCRIPTIONS,
        '{"name": "new", "endpoint": "http:///x"}',
        400,
        "VALIDATION_ERROR",
        "host",
    ),
    "an endpoint that is a number": Bad(
        "POST", SUBSCRIPTIONS, '{"name": "new", "endpoint": 7}', 400, "VALIDATION_ERROR", "endpoint"
    ),
    "a template of the host": Bad(
        "POST",
        SUBSCRIPTIONS,
        '{"name": "new", "endpoint": "http://{a}.test/", "supportTeam": "T"}',
        400,
        "VALIDATION_ERROR",
        "in its path and its query alone",
    ),
    "another topic in the body": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "topicName": "shop.other"}',
        400,
        "VALIDATION_ERROR",
        "topicName",
    ),
    "a gap between probes of no length": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "subscriptionPolicy": {"heartbeatMax": 0}}',
        400,
        "VALIDATION_ERROR",
        "subscriptionPolicy.heartbeatMax",
    ),
    "a rate of text": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "subscriptionPolicy": {"rate": "10"}}',
        400,
        "VALIDATION_ERROR",
        "subscriptionPolicy.rate",
    ),
    "a policy that is none": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "subscriptionPolicy": 7}',
        400,
        "VALIDATION_ERROR",
        "subscriptionPolicy",
    ),
    "a time to live of three hours": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "subscriptionPolicy": {"messageTtl": 10800}}',
        400,
        "VALIDATION_ERROR",
        "subscriptionPolicy.messageTtl",
    ),
    "batches of no messages": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "deliveryType": "BATCH", "subscriptionPolicy": {"batchSize": 0}}',
        400,
        "VALIDATION_ERROR",
        "subscriptionPolicy.batchSize",
    ),
    "a mode that is none": Bad(
        "POST", SUBSCRIPTIONS, NEW + ', "mode": "MULTICAST"}', 400, "VALIDATION_ERROR", "mode"
    ),
    "a filter without its regex": Bad(
        "POST",
        SUBSCRIPTIONS,
        NEW + ', "filters": [{"type": "header", "header": "h"}]}',
        400,
        "VALIDATION_ERROR",
        "filters.0.matcher",
    ),
    "a filter for a topic that does not exist": Bad(
        "POST",
        "/filters/shop.none",
        '{"filters": [], "message": ""}',
        404,
        "TOPIC_NOT_EXISTS",
        "shop.none",
    ),
    "a message to filter that is no base64": Bad(
        "POST",
        "/filters/shop.orders",
        '{"filters": [], "message": "!"}',
        400,
        "VALIDATION_ERROR",
        "base64",
    ),
    "a wrong state": Bad(
        "PUT", f"{BILLING}/state", '"STOPPED"', 400, "VALIDATION_ERROR", "SUSPENDED"
    ),
    "a state without quotation marks": Bad(
        "POST", f"{BILLING}/state", "SUSPENDED", 400, "FORMAT_ERROR", "not JSON"
    ),
    "a state in an object": Bad(
        "PUT", f"{BILLING}/state", '{"state": "SUSPENDED"}', 400, "FORMAT_ERROR", "JSON string"
    ),
    "the state of an unknown subscription": Bad(
        "PUT", f"{SUBSCRIPTIONS}/none/state", '"SUSPENDED"', 400, "SUBSCRIPTION_NOT_EXISTS", "none"
    ),
    "another name in a change": Bad(
        "PUT", BILLING, '{"name": "other"}', 400, "VALIDATION_ERROR", "name"
    ),
    "a change with a wrong state": Bad(
        "PATCH", BILLING, '{"state": "STOPPED"}', 400, "VALIDATION_ERROR", "state"
    ),
    "a change that takes the endpoint away": Bad(
        "PUT", BILLING, '{"endpoint": null}', 400, "VALIDATION_ERROR", "endpoint"
    ),
    "a limit that is no number": Bad(
        "GET", f"{BILLING}/undelivered?limit=many", "", 400, "VALIDATION_ERROR", "limit"
    ),
    "a limit of zero": Bad(
        "GET", f"{BILLING}/undelivered?limit=0", "", 400, "VALIDATION_ERROR", "limit"
    ),
    "a time that is none": Bad(
        "GET", f"{BILLING}/undelivered?since=yesterday", "", 400, "VALIDATION_ERROR", "since"
    ),
    "a time beyond all years": Bad(
        "GET", f"{BILLING}/undelivered?until={'9' * 30}", "", 400, "VALIDATION_ERROR", "until"
    ),
    "a page that is none": Bad(
        "GET", f"{BILLING}/undelivered?after=x", "", 400, "VALIDATION_ERROR", "after"
    ),
    "a page beyond all": Bad(
        "GET",
        f"{BILLING}/undelivered?after={urlsafe_b64encode(b'1.' + b'9' * 20).decode()}",
        "",
        400,
        "VALIDATION_ERROR",
        "after",
    ),
    "a status that is none": Bad(
        "GET", f"{BILLING}/undelivered?status=bad", "", 400, "VALIDATION_ERROR", "status"
    ),
    "an unknown path": Bad("GET", "/no/such/path", "", 404, "OTHER", "/no/such/path"),
    "another method": Bad("DELETE", "/groups", "", 405, "OTHER", "DELETE"),
}


async def everything(api: httpx.AsyncClient) -> list[Any]:
    """All that there is, to see that nothing of it changed."""
    paths = ["/groups", "/topics", "/topics/shop.orders", SUBSCRIPTIONS, BILLING]
    return [(await api.get(path)).json() for path in paths]


def complaint(bad: Bad, refused: httpx.Response) -> str | None:
    """What is wrong with the refusal of `bad`, if anything."""
    body = refused.json()
    if (refused.status_code, body["code"]) != (bad.status, bad.code):
        return f"answered {refused.status_code} {refused.text}"
    if bad.says not in body["message"]:
        return f"does not say {bad.says}: {refused.text}"
    named = [f"{item['path']} {item['message']}" for item in body.get("details", ())]
    if (bad.code, bad.status) == ("VALIDATION_ERROR", 400) and "; ".join(named) != body["message"]:
        return f"does not name the fields: {refused.text}"
    return None


@pytest.mark.usefixtures("subscription")
async def test_each_is_refused_with_its_code_and_changes_nothing(api: httpx.AsyncClient) -> None:
    before = await everything(api)
    complaints = {}
    for name, bad in REQUESTS.items():
        content = bad.content.encode(errors="surrogateescape")
        headers = {"Content-Type": bad.content_type}
        refused = await api.request(bad.method, bad.path, content=content, headers=headers)
        if wrong := complaint(bad, refused):
            complaints[name] = wrong
        if await everything(api) != before:
            complaints[name] = "changed something"
    assert complaints == {}


async def test_every_problem_is_named_at_once(api: httpx.AsyncClient, topic: str) -> None:
    body = {
        "name": "a/b",
        "endpoint": "nowhere",
        "topicName": "an.other",
        "mode": "MULTICAST",
        "subscriptionPolicy": {"rate": 0, "messageTtl": "long"},
    }
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert {item["path"] for item in refused.json()["details"]} == {
        "name",
        "endpoint",
        "topicName",
        "mode",
        "subscriptionPolicy.rate",
        "subscriptionPolicy.messageTtl",
    }

"""Settings of delivery, in and out of the API, and stored."""

from typing import Any

import httpx

from app.domain.catalogue.subscription import State
from app.domain.circuit import ErrorType
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Database
from tests.cases import for_each

STRICT = {"Prefer": "handling=strict"}
ENDPOINT = "http://subscriber.test/"

BREAKER = {
    "errorTypes": ["TIMEOUT", "HTTP_503"],
    "errorsThreshold": 5,
    "tripTimeout": 500,
    "tripTimeoutUnit": "MILLISECONDS",
    "circuitName": "InvoiceProcess",
}
# A setting as it is without being given, and with another value; None: not shown.
SETTINGS: list[tuple[str, Any, Any]] = [
    ("retryableStatusCodes", [], [408, 409, 425]),
    ("suspendOnGone", True, False),
    ("failureExpression", None, "status != 202 || body.contains('error')"),
    ("subscriptionIdentityHeadersEnabled", False, True),
    ("idempotencyKeyEnabled", True, False),
    ("ordering", "NONE", "PARTITION"),
    ("circuitBreaker", None, BREAKER),
    ("contentMode", "PLAIN", "CE_BINARY"),
    ("mode", "ANYCAST", "BROADCAST"),
    ("fetch.mode", "PREFETCH", "POLLING"),
    ("fetch.fetchSize", 500, 1),
    ("fetch.fetchTimeout", 1000, 60000),
    ("fetch.frequency", 1000, 60000),
    ("fetch.pollSize", 10, 10000),
    ("fetch.pollingTime", 1000, 100),
    ("subscriptionPolicy.parkedKeysMax", 1000, 1),
    ("subscriptionPolicy.maxRetries", None, 0),
    ("subscriptionPolicy.firstRetryImmediate", False, True),
    ("subscriptionPolicy.publishTtl", None, 60),
    ("subscriptionPolicy.onExhausted", "WAIT", "DISCARD_OLDEST"),
    ("subscriptionPolicy.sendingDelay", 0, 5000),
    ("subscriptionPolicy.exhaustedWaitMax", None, 30),
]
NAME_PROBLEM = "must be 1 to 100 letters, digits, '_', '.' or '-'"
OUT_OF_RANGE: list[tuple[str, Any, str]] = [
    ("retryableStatusCodes", [399], "must be 400 to 599 each"),
    ("retryableStatusCodes", [409, 600], "must be 400 to 599 each"),
    ("retryableStatusCodes", [410], "must be without 410 unless suspendOnGone is false"),
    ("fetch.fetchSize", -1, "must be 0 to 10000"),
    ("fetch.frequency", 999, "must be 1000 to 60000"),
    ("fetch.pollSize", 10001, "must be 1 to 10000"),
    ("fetch.pollingTime", 3600001, "must be 100 to 3600000"),
    ("circuitBreaker.errorTypes", [], f"must be one or more of {', '.join(ErrorType)}"),
    ("circuitBreaker.errorsThreshold", 0, "must be 1 to 10000"),
    ("circuitBreaker.errorsThreshold", 10_001, "must be 1 to 10000"),
    ("circuitBreaker.tripTimeout", 86_401, "must be 1 to 86400 SECONDS"),
    ("circuitBreaker.circuitName", "a b", NAME_PROBLEM),
    ("subscriptionPolicy.parkedKeysMax", 0, "must be 1 to 100000"),
    ("subscriptionPolicy.parkedKeysMax", 100001, "must be 1 to 100000"),
    ("subscriptionPolicy.maxRetries", -1, "must be 0 to 1000"),
    ("subscriptionPolicy.maxRetries", 1001, "must be 0 to 1000"),
    ("subscriptionPolicy.publishTtl", 0, "must be 1 to 2592000"),
    ("subscriptionPolicy.publishTtl", 2592001, "must be 1 to 2592000"),
    ("subscriptionPolicy.sendingDelay", -1, "must be 0 to 5000"),
    ("subscriptionPolicy.sendingDelay", 5001, "must be 0 to 5000"),
    ("subscriptionPolicy.requestTimeout", 99, "must be 100 to 300000"),
    ("subscriptionPolicy.messageTtl", 7201, "must be 0 to 7200"),
    ("subscriptionPolicy.exhaustedWaitMax", 0, "must be 1 to 7200"),
    ("subscriptionPolicy.exhaustedWaitMax", 7201, "must be 1 to 7200"),
]


def a_body(path: str, value: object) -> dict[str, Any]:
    outer, _, inner = path.partition(".")
    return {outer: {inner: value} if inner else value}


def value_at(path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    found: Any = body
    for name in path.split("."):
        found = found.get(name)
    return found


@for_each(("path", "default", "other"), SETTINGS)
async def test_a_setting_is_taken_kept_changed_and_reset(
    api: httpx.AsyncClient, topic: str, *, path: str, default: object, other: object
) -> None:
    body = {"name": path, "endpoint": ENDPOINT} | a_body(path, other)
    subscriptions = f"/topics/{topic}/subscriptions"
    created = await api.post(subscriptions, json=body, headers=STRICT)
    assert (created.status_code, value_at(path, created.json())) == (201, other)
    url = f"{subscriptions}/{path}"
    read = (await api.get(url)).json()
    assert value_at(path, read) == other
    assert (await api.put(url, json=read, headers=STRICT)).json() == read
    reset = (await api.put(url, json=a_body(path, None))).json()
    assert value_at(path, reset) == default
    assert value_at(path, (await api.put(url, json=a_body(path, other))).json()) == other


async def test_a_circuit_breaker_without_settings_has_those_of_the_documentation(
    api: httpx.AsyncClient, topic: str
) -> None:
    body = {"name": "billing", "endpoint": ENDPOINT, "circuitBreaker": {}}
    created = await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)
    assert created.json()["circuitBreaker"] == {
        "errorTypes": ["TIMEOUT", "CONNECTION", "HTTP_5XX", "HTTP_429", "HTTP_503", "EXPRESSION"],
        "errorsThreshold": 10,
        "tripTimeout": 30,
        "tripTimeoutUnit": "SECONDS",
    }
    changed = await api.put(
        f"/topics/{topic}/subscriptions/billing", json={"circuitBreaker": {"tripTimeout": 5}}
    )
    assert changed.json()["circuitBreaker"]["tripTimeout"] == 5
    assert changed.json()["circuitBreaker"]["errorsThreshold"] == 10


@for_each(("path", "value", "problem"), OUT_OF_RANGE)
async def test_a_value_out_of_range_is_refused_with_field_and_range(
    api: httpx.AsyncClient, topic: str, *, path: str, value: object, problem: str
) -> None:
    body = {"name": "billing", "endpoint": ENDPOINT} | a_body(path, value)
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert refused.status_code == 400
    assert refused.json()["details"] == [{"path": path, "message": problem}]


@for_each(
    ("header", "path", "problem"),
    [
        ({"name": "", "value": "v"}, "name", "must be a header name of 1 to 128 characters"),
        ({"name": "a b", "value": "v"}, "name", "must be a header name of 1 to 128 characters"),
        ({"name": "Host", "value": "v"}, "name", "must not be a header about the connection"),
        (
            {"name": "X", "value": "a\r\nb: c"},
            "value",
            "must be 0 to 4096 printable ASCII characters, no space around them",
        ),
    ],
)
async def test_a_header_that_cannot_be_sent_is_refused(
    api: httpx.AsyncClient, topic: str, *, header: dict[str, str], path: str, problem: str
) -> None:
    body = {
        "name": "billing",
        "endpoint": ENDPOINT,
        "headers": [{"name": "X", "value": ""}, header],
    }
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body)
    assert refused.json()["details"] == [{"path": f"headers.1.{path}", "message": problem}]


async def test_why_a_subscription_was_suspended_is_shown_until_its_owner_sets_the_state(
    api: httpx.AsyncClient, topic: str, subscription: str, database: Database
) -> None:
    async with database.transaction() as session:
        subscriptions = SubscriptionRepository(session)
        known = await subscriptions.get(topic, "billing", for_update=True)
        await subscriptions.update(known.in_state(State.SUSPENDED, reason="It is gone"))
    read = (await api.get(subscription)).json()
    assert (read["state"], read["stateReason"]) == ("SUSPENDED", "It is gone")
    await api.put(f"{subscription}/state", json="SUSPENDED")
    assert (await api.put(subscription, json=read, headers=STRICT)).json() == read
    await api.put(f"{subscription}/state", json="ACTIVE")
    assert "stateReason" not in (await api.get(subscription)).json()


async def test_a_message_may_not_be_too_old_by_the_time_it_may_be_sent(
    api: httpx.AsyncClient, topic: str
) -> None:
    policy = {"publishTtl": 3, "sendingDelay": 3000}
    body = {"name": "billing", "endpoint": ENDPOINT, "subscriptionPolicy": policy}
    refused = await api.post(f"/topics/{topic}/subscriptions", json=body, headers=STRICT)
    assert (refused.status_code, refused.json()["details"]) == (
        400,
        [{"path": "subscriptionPolicy.publishTtl", "message": "must be longer than sendingDelay"}],
    )

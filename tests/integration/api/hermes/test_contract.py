"""Hermes' REST contract as a table: every route and every code, over real HTTP, on both logs.

What each does in depth is shown elsewhere. Here each is there, under its path and its method, with
its status and the shape of its answer.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.errors import status_of
from app.domain import errors
from app.domain.errors import AngeliaError, MessageTooLargeError
from app.domain.message import NewRecord
from app.log.interface import MessageLog
from tests.integration.api.hermes.contract import MINE, TOPIC, Row, asked

RATES = ("timeouts", "otherErrors", "codes2xx", "codes4xx", "codes5xx", "retries", "rate")
FIGURES = {*RATES, "delivered", "discarded", "volume", "lag", "throughput", "batchRate"}
NEW_TOPIC = {
    "name": "shop.orders",
    "description": "what was ordered",
    "owner": {"source": "Plaintext", "id": "Shop"},
    "auth": {"enabled": False, "unauthenticatedAccessEnabled": True, "publishers": []},
    "subscribingRestricted": False,
    "retentionTime": {"retentionUnit": "DAYS", "duration": 1},
    "offlineStorage": {"enabled": False, "retentionTime": {"infinite": False, "duration": 60}},
    "trackingEnabled": True,
    "contentType": "JSON",
    "maxMessageSize": 10240,
    "ack": "ALL",
    "fallbackToRemoteDatacenterEnabled": True,
}
"""As Hermes' console sends it."""

NEW_SUBSCRIPTION = {
    "name": "billing",
    "topicName": "shop.orders",
    "owner": {"source": "Plaintext", "id": "Billing"},
    "contentType": "JSON",
    "deliveryType": "SERIAL",
    "description": "",
    "endpoint": "http://user:secret@subscriber.test/",
    "filters": [],
    "headers": [],
    "http2Enabled": False,
    "mode": "ANYCAST",
    "monitoringDetails": {"reaction": "", "severity": "NON_IMPORTANT"},
    "subscriptionPolicy": {
        "messageTtl": 3600,
        "messageBackoff": 1000,
        "requestTimeout": 1000,
        "sendingDelay": 0,
        "backoffMultiplier": 1,
        "backoffMaxIntervalInSec": 600,
        "rate": 50,
        "retryClientErrors": False,
        "inflightSize": None,
    },
    "trackingMode": "trackingAll",
    "endpointAddressResolverMetadata": {},
    "subscriptionIdentityHeadersEnabled": False,
    "autoDeleteWithTopicEnabled": False,
}
"""As Hermes' console sends it."""

TOPIC_FIELDS = {
    *("name", "description", "owner", "retentionTime", "ack", "contentType", "trackingEnabled"),
    *("jsonToAvroDryRun", "migratedFromJsonType", "maxMessageSize", "auth", "offlineStorage"),
    *("subscribingRestricted", "fallbackToRemoteDatacenterEnabled", "chaos"),
    *("createdAt", "modifiedAt"),
}
SUBSCRIPTION_FIELDS = {
    *NEW_SUBSCRIPTION,
    *("state", "supportTeam", "contact", "trackingEnabled", "createdAt", "modifiedAt"),
    *("profilingEnabled", "profilingThresholdMs"),
}
NEW_TASK = {
    "type": "topic",
    "sourceTopic": "shop.orders",
    "targetTopic": "shop.orders",
    "startTimestamp": "2026-01-01T12:00:00Z",
    "endTimestamp": "2026-01-01T13:00:00Z",
}
TASK_FIELDS = {*NEW_TASK, "taskId", "createdAt", "logsUrl", "metricsUrl", "jobDetailsUrl"}
ROLES = ["any", "admin"]


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    """The embedded log, and a real Kafka."""
    return real_log


# In order: what one makes, the next ones look at.
CONTRACT = (
    Row("POST /groups", 201, sends={"groupName": "shop"}, body={"groupName": "shop"}),
    Row("GET /groups", body=["shop"]),
    Row("GET /groups/shop", body={"groupName": "shop"}),
    Row("PUT /groups/shop", 204, sends={"groupName": "shop"}),
    Row("POST /topics", 201, sends=NEW_TOPIC, fields=TOPIC_FIELDS),
    Row("GET /topics?groupName=shop&tracked=false", body=["shop.orders"]),
    Row("GET /topics?groupName=shop&tracked=true", body=["shop.orders"]),
    Row(f"GET {TOPIC}", fields=TOPIC_FIELDS),
    Row(f"PUT {TOPIC}", sends={"description": "x"}, fields=TOPIC_FIELDS),
    Row("POST /topics/query?groupName=shop", sends={"query": {}}, body=["shop.orders"]),
    Row("GET /topics/owner/Plaintext/Shop", fields=TOPIC_FIELDS),
    Row(f"POST {TOPIC}/subscriptions", 201, sends=NEW_SUBSCRIPTION, fields=SUBSCRIPTION_FIELDS),
    Row(f"GET {TOPIC}/subscriptions?tracked=false", body=["billing"]),
    Row(f"POST {TOPIC}/subscriptions/query", sends={"query": {}}, body=["billing"]),
    Row(f"GET {MINE}", fields=SUBSCRIPTION_FIELDS),
    Row(f"PUT {MINE}", sends={"description": "x"}, fields=SUBSCRIPTION_FIELDS),
    Row(f"PATCH {MINE}", sends={"description": "y"}, fields=SUBSCRIPTION_FIELDS),
    Row("GET /subscriptions/owner/Plaintext/Billing", fields=SUBSCRIPTION_FIELDS),
    Row(f"GET {TOPIC}/clients", body=["Billing"]),
    Row(f"GET {TOPIC}/offline-clients-source", 404, fields={"message", "code"}),
    Row(
        f"GET {TOPIC}/metrics",
        fields={"published", "volume", "rate", "deliveryRate", "throughput", "subscriptions"},
    ),
    Row(f"GET {TOPIC}/preview", fields={"content", "truncated"}),
    Row(f"GET {TOPIC}/preview/0", body='{"order": 1}', is_text=True),
    Row(
        f"GET {TOPIC}/preview/cluster/primary-dc/partition/0/offset/0",
        body='{"order": 1}',
        is_text=True,
    ),
    Row(f"PUT {MINE}/state", sends="SUSPENDED", fields={"state"}),
    Row(f"POST {MINE}/state", sends="ACTIVE", fields={"state"}),
    Row(f"GET {MINE}/state", body="ACTIVE"),
    Row(f"GET {MINE}/metrics", fields=FIGURES),
    Row(f"GET {MINE}/metrics/persistent", body={"delivered": 0, "discarded": 0, "volume": 0}),
    Row(f"GET {MINE}/undelivered", body=[]),
    Row(f"GET {MINE}/undelivered/last", 404),
    Row(
        f"PUT {MINE}/retransmission?dryRun=true",
        sends={"retransmissionDate": "2021-10-25T00:00:00+02:00"},
        fields={"primary"},
    ),
    Row(
        f"POST {MINE}/retransmission",
        sends="-6h",
        fields={"topic", "partition", "offset"},
    ),
    Row(f"GET {MINE}/events/m-1/trace", body=[]),
    Row(f"GET {MINE}/consumer-groups", fields={"clusterName", "groupId", "state", "members"}),
    Row("POST /query/groups", sends={"query": {}}, fields={"groupName"}),
    Row("POST /query/topics", sends={"query": {}}, fields=TOPIC_FIELDS),
    Row("POST /query/subscriptions", sends={"query": {}}, fields=SUBSCRIPTION_FIELDS),
    Row("POST /query/topics/metrics", sends={"query": {}}, fields={"name", "published"}),
    Row("POST /query/subscriptions/metrics", sends={"query": {}}, fields={"name", *FIGURES}),
    Row("GET /search/query?q=orders", fields={"results", "totalCount"}),
    Row("GET /stats", fields={"topicStats", "subscriptionStats"}),
    Row(
        "GET /owners/sources",
        body=[{"name": "Plaintext", "autocomplete": False, "deprecated": False}],
    ),
    Row("GET /owners/sources/Plaintext/Shop", body={"id": "Shop", "name": "Shop"}),
    Row("GET /owners/sources/Plaintext?search=x", 400, fields={"code"}),
    Row("GET /roles", body=ROLES),
    Row(f"GET /roles{TOPIC}", body=[*ROLES, "topicOwner"]),
    Row(f"GET /roles{MINE}", body=[*ROLES, "topicOwner", "subscriptionOwner"]),
    Row("GET /mode", body="readWrite", is_text=True),
    Row("POST /mode?mode=readWrite"),
    Row("GET /console", fields={"console", "auth", "owner", "topic", "subscription", "group"}),
    Row("GET /oauth/providers", body=[]),
    Row("GET /workload-constraints", fields={"topicConstraints", "subscriptionConstraints"}),
    Row(
        "PUT /workload-constraints/topic",
        201,
        sends={"topicName": "shop.orders", "constraints": {"consumersNumber": 2}},
    ),
    Row(
        "PUT /workload-constraints/subscription",
        201,
        sends={"subscriptionName": "shop.orders$billing", "constraints": {"consumersNumber": 2}},
    ),
    Row("DELETE /workload-constraints/topic/shop.orders"),
    Row("DELETE /workload-constraints/subscription/shop.orders/billing"),
    Row("GET /readiness/datacenters", body=[{"datacenter": "primary", "status": "READY"}]),
    Row("POST /readiness/datacenters/primary-dc", 202, sends={"isReady": True}),
    Row("GET /inactive-topics", body=[]),
    Row("GET /consistency/groups", body=["shop"]),
    Row("GET /consistency/inconsistencies/groups?groupNames=shop", body=[]),
    Row("GET /consistency/inconsistencies/topics", body=[]),
    Row("POST /consistency/sync/groups/shop?primaryDatacenter=primary-dc"),
    Row(f"POST /consistency/sync{TOPIC}?primaryDatacenter=primary-dc"),
    Row(f"POST /consistency/sync{MINE}?primaryDatacenter=primary-dc"),
    Row(f"GET /dashboards{TOPIC}", 404, fields={"code"}),
    Row(f"GET /dashboards{MINE}", 404, fields={"code"}),
    Row(f"GET /tracking-urls{TOPIC}", body=[]),
    Row(f"GET /tracking-urls{MINE}", body=[]),
    Row("GET /offline-retransmission/tasks", body=[]),
    Row(f"GET /offline-retransmission{TOPIC}/tasks/", body=[]),
    Row("POST /offline-retransmission/tasks", 201, sends=NEW_TASK, fields=TASK_FIELDS),
    Row(f"GET /offline-retransmission{TOPIC}/tasks", fields=TASK_FIELDS),
    Row("DELETE /offline-retransmission/tasks/none", 404, fields={"code"}),
    Row(
        "POST /filters/shop.orders",
        sends={"filters": [], "message": "e30="},
        body={"status": "MATCHED"},
    ),
    Row("GET /", body="UP", is_text=True),
    Row("GET /status/ping", body="UP", is_text=True),
    Row("GET /status/health", body="UP", is_text=True),
    Row("GET /status/ready", fields={"status"}),
    Row(f"DELETE {MINE}"),
    Row(f"DELETE {TOPIC}"),
    Row("DELETE /groups/shop"),
)


async def test_every_route_of_the_contract_answers_as_it_has_it(
    api: httpx.AsyncClient, log: MessageLog
) -> None:
    async def publish(row: Row) -> None:
        if row.request == "POST /topics":
            message = NewRecord(value=b'{"order": 1}')
            await log.append("shop.orders", [message] * 8)  # one in each partition

    assert await asked(api, CONTRACT, then=publish) == {}


STATUSES = {
    "TOPIC_ALREADY_EXISTS": 400,
    "TOPIC_NOT_EXISTS": 404,
    "GROUP_NOT_EXISTS": 404,
    "GROUP_NAME_IS_INVALID": 400,
    "SUBSCRIPTION_NOT_EXISTS": 400,
    "SUBSCRIPTION_ALREADY_EXISTS": 400,
    "VALIDATION_ERROR": 400,
    "FORMAT_ERROR": 400,
    "GROUP_NOT_EMPTY": 403,
    "TOPIC_NOT_EMPTY": 403,
    "GROUP_ALREADY_EXISTS": 400,
    "PARTITIONS_NOT_FOUND_FOR_TOPIC": 404,
    "OFFSET_NOT_FOUND_EXCEPTION": 404,
    "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION": 404,
    "PERMISSION_DENIED": 403,
    "OAUTH_PROVIDER_NOT_EXISTS": 404,
    "OAUTH_PROVIDER_ALREADY_EXISTS": 400,
    "THROUGHPUT_QUOTA_VIOLATION": 429,
    "TOPIC_CONSTRAINTS_DO_NOT_EXIST": 400,
    "SUBSCRIPTION_CONSTRAINTS_DO_NOT_EXIST": 400,
    "OWNER_SOURCE_NOT_FOUND": 404,
    "OWNER_SOURCE_DOESNT_SUPPORT_AUTOCOMPLETE": 400,
    "INVALID_QUERY": 400,
    "IMPLEMENTATION_ABSENT": 404,
    "SENDING_TO_KAFKA_TIMEOUT": 503,
}
"""Hermes' codes, with its statuses."""


def kinds(kind: type[AngeliaError] = AngeliaError) -> Iterator[type[AngeliaError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
        yield from kinds(below)


def test_hermes_codes_have_its_statuses() -> None:
    found: dict[str, set[int]] = {}
    for kind in kinds():
        # A message that is too large has the code of Hermes, and the status of HTTP.
        if kind.code in STATUSES and kind is not MessageTooLargeError:
            found.setdefault(kind.code, set()).add(status_of(kind.__new__(kind)))
    assert found == {code: {status} for code, status in STATUSES.items()}


# Each code, and a request that gets it from the table's group, topic and subscription.
CODES: dict[str, tuple[str, Any]] = {
    "TOPIC_ALREADY_EXISTS": ("POST /topics", {"name": "shop.orders"}),
    "TOPIC_NOT_EXISTS": ("GET /topics/shop.none", None),
    "GROUP_NOT_EXISTS": ("GET /groups/none", None),
    "GROUP_NAME_IS_INVALID": ("POST /groups", {"groupName": "a_b"}),
    "SUBSCRIPTION_NOT_EXISTS": (f"GET {TOPIC}/subscriptions/none", None),
    "SUBSCRIPTION_ALREADY_EXISTS": (f"POST {TOPIC}/subscriptions", NEW_SUBSCRIPTION),
    "VALIDATION_ERROR": ("POST /topics", {"name": "orders"}),
    "FORMAT_ERROR": ("POST /topics", []),
    "GROUP_NOT_EMPTY": ("DELETE /groups/shop", None),
    "TOPIC_NOT_EMPTY": (f"DELETE {TOPIC}", None),
    "GROUP_ALREADY_EXISTS": ("POST /groups", {"groupName": "shop"}),
    "PARTITIONS_NOT_FOUND_FOR_TOPIC": (
        f"GET {TOPIC}/preview/cluster/primary-dc/partition/99/offset/0",
        None,
    ),
    "OFFSET_NOT_FOUND_EXCEPTION": (
        f"GET {TOPIC}/preview/cluster/primary-dc/partition/0/offset/99",
        None,
    ),
    "BROKERS_CLUSTER_NOT_FOUND_EXCEPTION": (
        f"GET {TOPIC}/preview/cluster/other/partition/0/offset/0",
        None,
    ),
    "OAUTH_PROVIDER_NOT_EXISTS": ("GET /oauth/providers/none", None),
    "TOPIC_CONSTRAINTS_DO_NOT_EXIST": ("DELETE /workload-constraints/topic/shop.orders", None),
    "SUBSCRIPTION_CONSTRAINTS_DO_NOT_EXIST": (
        "DELETE /workload-constraints/subscription/shop.orders/billing",
        None,
    ),
    "OWNER_SOURCE_NOT_FOUND": ("GET /owners/sources/None/x", None),
    "OWNER_SOURCE_DOESNT_SUPPORT_AUTOCOMPLETE": ("GET /owners/sources/Plaintext?search=x", None),
    "INVALID_QUERY": ("POST /query/topics", {"query": 1}),
    "IMPLEMENTATION_ABSENT": (f"GET {TOPIC}/offline-clients-source", None),
}
# Those that take another state of the service, each with a test of its own.
SHOWN_ELSEWHERE = {
    "PERMISSION_DENIED",
    "OAUTH_PROVIDER_ALREADY_EXISTS",
    "THROUGHPUT_QUOTA_VIOLATION",
    "SENDING_TO_KAFKA_TIMEOUT",
}


async def test_each_of_hermes_codes_can_be_had(api: httpx.AsyncClient) -> None:
    assert CODES.keys() | SHOWN_ELSEWHERE == STATUSES.keys()
    await api.post("/topics", json=NEW_TOPIC)
    await api.post(f"{TOPIC}/subscriptions", json=NEW_SUBSCRIPTION)
    wrong = {}
    for code, (request, sends) in CODES.items():
        method, _, path = request.partition(" ")
        answer = await api.request(method, path, **({} if sends is None else {"json": sends}))
        body = answer.json()
        if (answer.status_code, body["code"]) != (STATUSES[code], code) or not body["message"]:
            wrong[code] = answer.text
    assert wrong == {}

"""What is ours of the REST contract, as a table; and that nothing is in none of the tables.

Each request is made over real HTTP, with a real database, on both logs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.api.codes import codes
from app.log.interface import MessageLog
from tests.integration.api.hermes import test_contract
from tests.integration.api.hermes.contract import MINE, TOPIC, Row, asked, operation_of, operations

SHORT = "/subscriptions/shop.orders/billing/secrets"
ANY_JOB = {"id", "kind", "state", "requestedAt"}
ERROR = {"message", "code"}
SECRET = {"id", "type", "secret", "createdAt"}
PROVIDER = {
    "name": "login",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "angelia",
    "clientSecret": "abc123",
}
TASK = {
    "type": "topic",
    "sourceTopic": "shop.orders",
    "targetTopic": "shop.orders",
    "startTimestamp": "2026-01-01T12:00:00Z",
    "endTimestamp": "2026-01-01T13:00:00Z",
}


@pytest.fixture
def log(real_log: MessageLog) -> MessageLog:
    """The embedded log, and a real Kafka."""
    return real_log


# In order: what one makes, the next ones look at.
OWN = (
    Row("POST /topics", 201, sends={"name": "shop.orders", "partitions": 2}),
    Row(f"POST {TOPIC}/subscriptions", 201, sends={"name": "billing", "endpoint": "http://h.test"}),
    Row(f"POST {TOPIC}", 201, sends={"order": 1}, keeps=("message", "Hermes-Message-Id")),
    Row(f"POST {TOPIC}/batch", 201, sends=[{"order": 2}, {"order": 3}], fields={"id", "status"}),
    Row(f"GET {TOPIC}/messages?path=$.order&value=2", fields={"messageId", "message", "offset"}),
    Row(f"GET {TOPIC}/subscriptions", body=["billing"]),
    Row(f"GET {TOPIC}/schema", 204),
    Row(f"POST {TOPIC}/schema", 201, sends={"type": "object"}, keeps=("schema", "Schema-Id")),
    Row(f"GET {TOPIC}/schema", body={"type": "object"}),
    Row(f"GET {TOPIC}/schema/versions", fields={"version", "id"}),
    Row(f"GET {TOPIC}/schema/versions/1", body={"type": "object"}),
    Row(f"GET {TOPIC}/schema/ids/{{schema}}", body={"type": "object"}),
    Row(f"DELETE {TOPIC}/schema"),
    Row(f"POST {MINE}/secrets", 201, fields=SECRET, keeps=("first", "id")),
    Row(f"GET {MINE}/secrets", fields=SECRET),
    Row(f"POST {SHORT}", 201, fields=SECRET, keeps=("second", "id")),
    Row(f"GET {SHORT}", fields=SECRET),
    Row(f"DELETE {MINE}/secrets/{{first}}"),
    Row(f"DELETE {SHORT}/{{second}}"),
    # No worker runs here; what one answers is shown end to end.
    Row(f"POST {MINE}/ping", 503, fields=ERROR),
    Row(f"GET {MINE}/retries", body=[]),
    Row("POST /oauth/providers", 201, sends=PROVIDER, fields={*PROVIDER}),
    Row("GET /oauth/providers/login", fields={*PROVIDER}),
    Row("PUT /oauth/providers/login", sends={"requestTimeout": 5000}, fields={*PROVIDER}),
    Row("DELETE /oauth/providers/login"),
    Row(
        f"POST {MINE}/retransmission",
        202,
        sends={"from": "-6h", "only": "all"},
        fields={"partition", "offset", "toOffset"},
    ),
    Row(f"GET {MINE}/retransmissions", fields={"id", "state"}, keeps=("again", "id")),
    Row(f"GET {MINE}/retransmissions/{{again}}", fields={"id", "counts"}),
    Row(f"DELETE {MINE}/retransmissions/{{again}}", fields={"id", "counts"}),
    Row(f"GET {MINE}/ledger", fields={"entries"}),
    Row(f"POST {MINE}/ledger", 202, fields=ANY_JOB),
    Row(f"GET {MINE}/ledger/check", fields={"intact", "entries"}),
    Row(f"GET {MINE}/ledger/export", body=[]),
    Row("GET /ledgers/keys"),
    Row(f"GET {MINE}/metrics/history", fields={"points"}),
    Row(f"GET {TOPIC}/metrics/history", fields={"points"}),
    Row("GET /workers"),
    Row("GET /workers/none/partitions", 404, fields=ERROR),
    Row("GET /settings"),
    Row(f"POST {MINE}/simulate", 202, sends={"rate": 50}, fields=ANY_JOB, keeps=("tried", "id")),
    Row(f"GET {MINE}/simulations/{{tried}}", fields={"id", "capacity"}),
    Row(f"GET {TOPIC}/undelivered", body=[]),
    Row("GET /undelivered?messageId={message}", body=[]),
    Row(f"GET {TOPIC}/events/{{message}}/trace", body=[]),
    Row("GET /events/{message}/trace", body=[]),
    Row(f"GET {TOPIC}/archive", fields={"messages", "folders"}),
    Row(f"GET {MINE}/health", fields={"status", "problems"}),
    Row(f"GET {MINE}/forecast", fields={"topicName"}),
    Row("GET /unhealthy", body=[]),
    Row("GET /alerts", body=[]),
    Row(
        "POST /jobs",
        202,
        sends={"kind": "UNDELIVERED_ANALYTICS"},
        fields=ANY_JOB,
        keeps=("job", "id"),
    ),
    Row("GET /jobs", fields=ANY_JOB),
    Row("GET /jobs/{job}", fields=ANY_JOB),
    Row("DELETE /jobs/{job}", fields=ANY_JOB),
    *(Row(f"GET /analytics/{each}", 404, fields=ERROR) for each in ("undelivered", "failures")),
    Row("GET /analytics/latency", 404, fields=ERROR),
    Row("DELETE /consistency/inconsistencies/topics?topicName=shop.none", 404, fields=ERROR),
    Row("POST /offline-retransmission/tasks", 201, sends=TASK, keeps=("task", "taskId")),
    Row("GET /offline-retransmission/tasks/{task}", fields={"taskId"}),
    Row("DELETE /offline-retransmission/tasks/{task}", fields={"taskId"}),
    Row(
        "POST /keys",
        201,
        sends={"name": "ci", "scopes": ["read"]},
        fields={"key", "id"},
        keeps=("key", "id"),
    ),
    Row("GET /keys", fields={"id", "scopes"}),
    Row("GET /keys/{key}", fields={"id", "scopes"}),
    Row("DELETE /keys/{key}", fields={"id", "scopes"}),
    Row("GET /audit", fields={"id", "action"}),
    Row("GET /metrics"),
    Row("GET /status/prometheus"),
)


async def test_every_route_of_ours_answers_as_the_table_has_it(api: httpx.AsyncClient) -> None:
    assert await asked(api, OWN) == {}


def test_there_is_no_route_that_is_not_asked_on_both_logs() -> None:
    shown = {operation_of(row) for row in (*test_contract.CONTRACT, *OWN)}
    assert operations().keys() - shown == set()


# Each code that Hermes does not have, or that takes no more than what is there, and who gets it.
CODES = {
    "ANALYSIS_NOT_EXISTS": Row("GET /analytics/latency", 404),
    "JOB_NOT_EXISTS": Row("GET /jobs/none", 404),
    "WORKER_NOT_EXISTS": Row("GET /workers/none/partitions", 404),
    "KEY_NOT_EXISTS": Row("GET /keys/none", 404),
    "NO_WORKER": Row(f"POST {MINE}/ping", 503),
    "OTHER": Row("GET /none", 404),
    "RETRANSMISSION_NOT_EXISTS": Row(f"GET {MINE}/retransmissions/none", 404),
    "SIGNING_SECRET_NOT_EXISTS": Row(f"DELETE {MINE}/secrets/none", 404),
}
# Those that take another state of the service: the module that shows each, over HTTP, and its test.
SHOWN_ELSEWHERE = {
    "AUTH_ERROR": "access/test_access_matrix::test_publishing_lets_those_through_that_may",
    "DUPLICATE_MESSAGE": "publish/test_refused_duplicates::test_who_waits_is_refused_at_once",
    "IDEMPOTENCY_KEY_REUSED": "http/test_conventions::test_a_key_is_for_one_request",
    "IDEMPOTENT_REQUEST_UNDER_WAY": (
        "http/test_conventions::test_requests_at_once_under_one_key_create_once"
    ),
    "JOB_ENDED": "insight/test_jobs::test_a_job_that_has_ended_cannot_be_cancelled",
    "JOB_QUEUE_FULL": "insight/test_jobs::test_no_more_than_a_hundred_jobs_wait",
    "MESSAGE_TIME_REFUSED": (
        "publish/test_publishing::test_a_message_refused_for_its_time_may_come_again"
    ),
    "OAUTH_PROVIDER_ALREADY_EXISTS": "catalogue/test_oauth::test_there_is_one_provider_of_a_name",
    "OAUTH_PROVIDER_IN_USE": (
        "catalogue/test_oauth::test_a_provider_that_is_used_is_not_deleted_and_it_is_said_by_whom"
    ),
    "OPERATION_DISABLED": "catalogue/test_schemas::test_an_avro_topic_needs_a_schema_and_keeps_one",
    "PERMISSION_DENIED": (
        "replay/test_offline::test_owners_of_both_topics_ask_and_those_of_the_target_cancel"
    ),
    "PING_TOO_SOON": (
        "../../e2e/test_ping::test_a_worker_pings_an_endpoint_and_its_owner_reads_how_it_answered"
    ),
    "PRECONDITION_FAILED": (
        "http/test_conventions::test_of_two_writers_who_read_the_same_one_is_told"
    ),
    "SCHEMA_REPOSITORY_INTERNAL_ERROR": (
        "catalogue/test_schema_registry::test_while_the_registry_is_down_only_new_schemas_wait"
    ),
    "SCHEMA_VERSION_DOES_NOT_EXIST": (
        "catalogue/test_schemas::test_a_publisher_may_name_an_older_version_and_none_that_is_not_there"
    ),
    "SECRET_KEY_MISSING": "catalogue/test_secrets::test_a_server_without_a_key_says_what_to_set",
    "SECRET_UNREADABLE": (
        "catalogue/test_secrets::"
        "test_a_subscription_whose_key_is_gone_says_so_and_can_be_suspended_and_deleted"
    ),
    "SENDING_TO_KAFKA_TIMEOUT": (
        "log/test_outages::test_a_log_that_is_down_is_a_503_and_the_api_stays_up"
    ),
    "STORAGE_UNAVAILABLE": (
        "log/test_outages::test_known_topics_take_messages_while_the_database_is_down"
    ),
    "THROUGHPUT_QUOTA_VIOLATION": (
        "publish/test_publish_quota::test_refuses_with_429_what_is_over_the_quota_of_a_topic"
    ),
    "TIMEOUT": "http/test_bounded::test_a_body_that_does_not_come_is_not_waited_for",
    "TOKEN_NOT_PROVIDED": "access/test_access_matrix::test_publishing_lets_those_through_that_may",
    "TOO_MANY_SEARCHES": "http/test_bounded::test_two_searches_run_at_a_time",
    "TOO_MANY_WAITERS": "http/test_bounded::test_so_many_publishers_wait_at_a_time",
    "UNROUTABLE": (
        "log/test_log_routes::test_what_the_log_does_not_take_is_refused_and_leaves_nothing_there"
    ),
}


async def test_each_code_of_ours_can_be_had(api: httpx.AsyncClient) -> None:
    await asked(api, OWN[:2])
    wrong = {}
    for code, row in CODES.items():
        method, _, path = row.request.partition(" ")
        answer = await api.request(method, path)
        body = answer.json()
        if (answer.status_code, body["code"]) != (row.status, code) or not body["message"]:
            wrong[code] = answer.text
    assert wrong == {}


def test_there_is_no_code_that_no_request_gets() -> None:
    assert codes().keys() == test_contract.CODES.keys() | CODES.keys() | SHOWN_ELSEWHERE.keys()
    assert SHOWN_ELSEWHERE.keys() >= test_contract.SHOWN_ELSEWHERE


def strings(module: str, test: str) -> Iterator[object]:
    """The texts in that test, its parameters included; none if there is no such test."""
    tree = ast.parse((Path(__file__).parents[1] / f"{module}.py").read_text())
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name == test:
            yield from (each.value for each in ast.walk(function) if isinstance(each, ast.Constant))


@pytest.mark.parametrize(("code", "where"), SHOWN_ELSEWHERE.items())
def test_what_is_shown_elsewhere_is_there(code: str, where: str) -> None:
    module, _, test = where.partition("::")
    assert code in strings(module, test)

"""The routes of publishing in the OpenAPI document. FastAPI does not know these routes."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.body import BODY_TIMEOUT_S
from app.api.documented import errors
from app.api.openapi.errors import rendered
from app.api.publish.batch import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX
from app.domain.errors import (
    AngeliaError,
    DuplicateMessageError,
    FormatInvalidError,
    LogUnavailableError,
    MessageTimeRefusedError,
    MessageTooLargeError,
    SchemaRegistryError,
    SchemaVersionNotFoundError,
    ThroughputQuotaError,
    TooManyWaitersError,
    TopicNotFoundError,
    UnroutableError,
    ValidationFailedError,
)
from app.domain.runtime.receipt import FinalOutcome
from app.expressions import LENGTH_MAX
from app.services.publishing.acknowledgement import PATH
from app.services.publishing.waiters import WAIT_MAX, PendingReason

Json = dict[str, Any]

_REFUSALS: Final[tuple[type[AngeliaError], ...]] = (
    ValidationFailedError,
    FormatInvalidError,
    SchemaVersionNotFoundError,
    TopicNotFoundError,
    UnroutableError,
    DuplicateMessageError,
    MessageTooLargeError,
    ThroughputQuotaError,
    LogUnavailableError,
    MessageTimeRefusedError,
    SchemaRegistryError,
)
_ID_PATTERN: Final = r"^[!-\-/-~]{1,128}$"
_ID_HEADER: Final = {
    "Hermes-Message-Id": {
        "description": "the id of the message, also on errors",
        "schema": {"type": "string"},
    }
}
_DUPLICATE_HEADER: Final = {
    "Angelia-Duplicate": {
        "description": "true when the topic has `deduplication` and knows the id that its "
        "publisher gave to the message, which is not stored again",
        "schema": {"type": "string", "enum": ["true"]},
    }
}
_TOPIC_HEADERS: Final = {
    "Angelia-Subscriptions": {
        "description": "how many subscriptions the topic has, suspended ones too",
        "schema": {"type": "integer"},
    },
    "Angelia-Alternate-Topic": {
        "description": "where it is stored, when that is not the topic of the path; of a batch, "
        "where all of it is",
        "schema": {"type": "string"},
    },
}
_RESULT: Final = {
    "type": "object",
    "required": ["id", "status"],
    "properties": {
        "id": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "duplicate": {"type": "boolean"},
        "alternateTopic": {
            "type": "string",
            "description": "where it is stored, when that is not the topic of the path",
        },
        "duplicateOf": {
            "type": "string",
            "description": "with DUPLICATE_MESSAGE: the id of the message that was stored",
        },
    },
}
_WAITED: Final = {
    "type": "object",
    "required": ["id", "complete", "subscriptions"],
    "properties": {
        "id": {"type": "string"},
        "complete": {
            "type": "boolean",
            "description": "whether every subscription that was active is done with it",
        },
        "acknowledged": {
            "type": "boolean",
            "description": "whether `ackExpression` is true; absent without it",
        },
        "subscriptions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "outcome"],
                "properties": {
                    "name": {"type": "string"},
                    "outcome": {"type": "string", "enum": [*FinalOutcome, *PendingReason]},
                    "status": {"type": "integer"},
                    "reason": {"type": "string"},
                },
            },
        },
    },
}
_WAITED_EXAMPLE: Final = {
    "id": "order-1",
    "complete": False,
    "subscriptions": [
        {"name": "billing", "outcome": "DELIVERED"},
        {
            "name": "mail",
            "outcome": "DISCARDED",
            "status": 400,
            "reason": "Message sending failed with status code:400",
        },
        {"name": "stock", "outcome": "PENDING"},
    ],
}
_RESULTS: Final = {"type": "array", "items": _RESULT}
_STORED: Final = {"id": "order-1", "status": 201}
_REFUSED: Final = {
    "id": "order-2",
    "status": 413,
    "code": "VALIDATION_ERROR",
    "message": "The message is larger than the limit of 51200 bytes",
}
_EVENT: Final = {
    "specversion": "1.0",
    "id": "order-1",
    "source": "/shop",
    "type": "order.placed",
    "data": {"order": 4711},
}


def publish_operation(topic: Json) -> Json:
    """Return the operation `POST /topics/{topic}`. `topic` describes its path parameter."""
    return {
        "tags": ["publish"],
        "summary": "Publish",
        "description": (
            "Store a message. It must be JSON, whatever its Content-Type, and is kept byte for "
            "byte; 201 says that the log has it. On a topic with a schema it must be valid, too. "
            "Else `details` says what is wrong with it (400). An AVRO topic takes "
            "application/json, avro/json and avro/binary. "
            "After 503, or without an answer, it may be stored or not: publish it again with "
            "the same Idempotency-Key, and subscribers can tell. A CloudEvent, in binary or in "
            "structured mode, gives its id to its message, unless there is an Idempotency-Key. "
            f"A body must be there within {BODY_TIMEOUT_S:g} seconds (408). "
            "Subscriptions are counted as this process knows them: changes made elsewhere are "
            "known a moment later."
        ),
        "operationId": "publish",
        "parameters": [
            topic,
            _MANDATORY,
            _WAIT,
            _ACK_EXPRESSION,
            _PARTITION_KEY,
            *_SCHEMA,
            _header(
                "Idempotency-Key",
                "the id of the message, instead of a random one or that of its event",
                pattern=_ID_PATTERN,
            ),
            _TRACE,
        ],
        "requestBody": {
            "required": True,
            "content": {"*/*": {"schema": {}, "example": {"order": 4711, "total": 12.5}}},
        },
        "responses": {
            "201": {
                "description": "Stored; with `wait`, the body says what became of it",
                "headers": _ID_HEADER | _TOPIC_HEADERS | _DUPLICATE_HEADER,
                "content": {"application/json": {"schema": _WAITED, "example": _WAITED_EXAMPLE}},
            },
            "202": {
                "description": "Stored, and not acknowledged in time; or a duplicate: no body",
                "headers": _ID_HEADER | _TOPIC_HEADERS | _DUPLICATE_HEADER,
                "content": {
                    "application/json": {
                        "schema": _WAITED,
                        "example": _WAITED_EXAMPLE | {"acknowledged": False},
                    }
                },
            },
        }
        | _refusals(408, 415, *_REFUSALS, TooManyWaitersError, headers=_ID_HEADER),
    }


def batch_operation(topic: Json) -> Json:
    """Return the operation `POST /topics/{topic}/batch`. `topic` describes its path parameter."""
    return {
        "tags": ["publish"],
        "summary": "Publish a batch",
        "description": (
            f"Store up to {BATCH_MESSAGES_MAX} messages in up to {BATCH_BYTES_MAX} bytes: the "
            "elements of a JSON array, JSON lines, or a batch of CloudEvents, whose ids their "
            "messages get (and whose `partitionkey` is their key). Each message is kept as it "
            "stands there, byte for byte, and each is stored or refused by itself: there is a "
            "result for each, in their order. Only those with status 201 are stored for certain; "
            "one with 503 may be. When none is stored, the answer is an error with the `results` "
            "in it. Its status is that of all results if they share one, else 503 if one is 503, "
            "else 400."
        ),
        "operationId": "publish_batch",
        "parameters": [
            topic,
            _MANDATORY,
            _ENVELOPE,
            _PARTITION_KEY,
            *_SCHEMA,
            _TRACE,
        ],
        "requestBody": {"required": True, "content": _BATCH_FORMS},
        "responses": {
            "201": _results("All are stored", [_STORED]),
            "207": _results("Some are stored", [_STORED, _REFUSED]),
            **_refusals(*_REFUSALS),
        },
    }


def _header(name: str, description: str, **schema: str) -> Json:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
    }


def _flag(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": description,
        "schema": {"type": "boolean", "default": False},
    }


_MANDATORY: Final = _flag(
    "mandatory",
    "a subscription must get the message: if no active one has filters that match (a filter "
    "error is no match), store it in the topic's `alternateTopic`, or refuse it (409) without "
    "one. In a chain of alternates, the first with a matching subscription stores it, else the "
    "last. In a batch, this holds for each message by itself",
)
_WAIT: Final = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": (
        f"at most so long (0 to {WAIT_MAX.seconds} seconds), wait until each subscription that is "
        "active has delivered, discarded or filtered out the message. The answer is 201 in any "
        "case (with `ackExpression` 202, too), since the message is stored; its body says which "
        "have. PENDING: has not, or has not said so yet; SUSPENDED: gets it when it is resumed; "
        "DELETED: was deleted meanwhile. "
        "A duplicate is answered at once, without a body. 503 TOO_MANY_WAITERS: it is not stored"
    ),
    "schema": {"type": "string", "pattern": "^[0-9]{1,9}(ms|s)?$"},
    "example": "5s",
}
_ACK_EXPRESSION: Final = {
    "name": PATH,
    "in": "query",
    "required": False,
    "description": (
        "with `wait`: CEL over the counts of subscriptions `delivered`, `discarded`, `filtered`, "
        "`pending`, `suspended`, `deleted` and `subscriptions` (all), and over `outcomes` by name. "
        "201 as soon as the expression is true; 202 if it is not in time, or at once for a "
        "duplicate. The message is stored in each case"
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": LENGTH_MAX},
    "example": "delivered >= 1 && discarded == 0",
}
_ENVELOPE: Final = _flag(
    "envelope",
    'each message is `{"message": …, "id": …, "key": …}`, of which `message` is stored; `id` and '
    "`key` may be absent",
)
_PARTITION_KEY: Final = _header(
    "Partition-Key", "messages with the same key go to the same partition"
)
_SCHEMA: Final = tuple(
    _header(name, description)
    for name, description in (
        ("Schema-Version", "version of the topic's schema, if not the newest"),
        ("Schema-Id", "id of the topic's schema, if not the newest"),
    )
)
_TRACE: Final = _header("traceparent", "passed on to subscribers (W3C Trace Context)")
_BATCH_FORMS: Final = {
    "application/json": {
        "schema": {"type": "array", "maxItems": BATCH_MESSAGES_MAX, "items": {}},
        "example": [{"order": 4711}, {"order": 4712}],
    },
    "application/x-ndjson": {
        "schema": {"type": "string"},
        "example": '{"order": 4711}\n{"order": 4712}\n',
    },
    "application/cloudevents-batch+json": {
        "schema": {"type": "array", "maxItems": BATCH_MESSAGES_MAX, "items": {"type": "object"}},
        "example": [_EVENT],
    },
}


def _results(description: str, example: list[Json]) -> Json:
    content = {"application/json": {"schema": _RESULTS, "example": example}}
    return {"description": description, "headers": _TOPIC_HEADERS, "content": content}


def _refusals(
    *documented: int | type[AngeliaError], headers: Mapping[str, Any] | None = None
) -> Json:
    """Return the responses for these statuses and kinds of errors, with these headers.

    500 and 503 are not included, because the document adds them to all routes.
    """
    return {
        status: answer | ({"headers": {**headers, **answer.get("headers", {})}} if headers else {})
        for status, answer in rendered(errors(*documented)).items()
    }

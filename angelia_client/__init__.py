"""A client for Angelia's API: publish, subscribe, see what became of messages.

`Angelia` is the client for threads, and `AsyncAngelia` for asyncio. Both have the same methods. The
package needs httpx, and no other part of Angelia::

    with Angelia("http://127.0.0.1:8090", api_key="ang_…") as angelia:
        angelia.publish("shop.orders", {"order": 1})
"""

import importlib
from typing import TYPE_CHECKING, Any

from angelia_client.batches import NewMessage
from angelia_client.discards import DiscardQuery, Redrive
from angelia_client.errors import (
    AccessDeniedError,
    ClientError,
    ConflictError,
    DuplicateError,
    FieldProblem,
    InvalidError,
    NotFoundError,
    NotUnderstoodError,
    RefusedError,
    ServiceError,
    ThrottledError,
    UnreachableError,
)
from angelia_client.histories import (
    Durations,
    FailedRequests,
    SubscriptionHistory,
    SubscriptionPoint,
    TopicHistory,
    TopicPoint,
)
from angelia_client.ledgers import (
    Ledger,
    LedgerCheck,
    LedgerEntry,
    LedgerKey,
    LedgerLink,
    LedgerRange,
    LedgerSums,
)
from angelia_client.messages import (
    BatchResult,
    Job,
    Message,
    Outcome,
    Position,
    Published,
    Redriven,
    Scope,
    TraceEntry,
    Undelivered,
)
from angelia_client.models import (
    Alert,
    ApiKey,
    AuditEvent,
    CreatedSubscription,
    Forecast,
    Health,
    HealthProblem,
    History,
    NamedSubscriptionMetrics,
    NamedTopicMetrics,
    NewApiKey,
    Owner,
    Pong,
    Readiness,
    SchemaVersion,
    SigningSecret,
    Subscription,
    SubscriptionMetrics,
    Topic,
    TopicMetrics,
    TopicSchema,
)
from angelia_client.replays import Replay, ReplayCounts, Retransmission
from angelia_client.retries import NO_RETRIES, Retries

if TYPE_CHECKING:
    from angelia_client.aio.client import AsyncAngelia
    from angelia_client.sync.client import Angelia

__all__ = [
    "NO_RETRIES",
    "AccessDeniedError",
    "Alert",
    "Angelia",
    "ApiKey",
    "AsyncAngelia",
    "AuditEvent",
    "BatchResult",
    "ClientError",
    "ConflictError",
    "CreatedSubscription",
    "DiscardQuery",
    "DuplicateError",
    "Durations",
    "FailedRequests",
    "FieldProblem",
    "Forecast",
    "Health",
    "HealthProblem",
    "History",
    "InvalidError",
    "Job",
    "Ledger",
    "LedgerCheck",
    "LedgerEntry",
    "LedgerKey",
    "LedgerLink",
    "LedgerRange",
    "LedgerSums",
    "Message",
    "NamedSubscriptionMetrics",
    "NamedTopicMetrics",
    "NewApiKey",
    "NewMessage",
    "NotFoundError",
    "NotUnderstoodError",
    "Outcome",
    "Owner",
    "Pong",
    "Position",
    "Published",
    "Readiness",
    "Redrive",
    "Redriven",
    "RefusedError",
    "Replay",
    "ReplayCounts",
    "Retransmission",
    "Retries",
    "SchemaVersion",
    "Scope",
    "ServiceError",
    "SigningSecret",
    "Subscription",
    "SubscriptionHistory",
    "SubscriptionMetrics",
    "SubscriptionPoint",
    "ThrottledError",
    "Topic",
    "TopicHistory",
    "TopicMetrics",
    "TopicPoint",
    "TopicSchema",
    "TraceEntry",
    "Undelivered",
    "UnreachableError",
]

# The module of a client class is imported only when a program uses the class. A program needs only
# one of the two classes, so it starts faster.
_CLIENTS = {
    "Angelia": "angelia_client.sync.client",
    "AsyncAngelia": "angelia_client.aio.client",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type that PEP 562 has
    if name not in _CLIENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_CLIENTS[name]), name)

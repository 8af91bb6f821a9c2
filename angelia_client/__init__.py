"""A client for Angelia's API: publish, subscribe, see what became of messages.

`Angelia` is for threads, `AsyncAngelia` for asyncio; they do the same by the same names. It needs
httpx and nothing else of Angelia::

    with Angelia("http://127.0.0.1:8090", api_key="ang_…") as angelia:
        angelia.publish("shop.orders", {"order": 1})
"""

from angelia_client.aio.client import AsyncAngelia
from angelia_client.batches import NewMessage
from angelia_client.discards import DiscardQuery, Redrive
from angelia_client.errors import (
    AccessDeniedError,
    ClientError,
    ConflictError,
    FieldProblem,
    InvalidError,
    NotFoundError,
    NotUnderstoodError,
    RefusedError,
    ServiceError,
    ThrottledError,
    UnreachableError,
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
    ApiKey,
    AuditEvent,
    NewApiKey,
    Owner,
    Pong,
    Readiness,
    SigningSecret,
    Subscription,
    SubscriptionMetrics,
    Topic,
    TopicMetrics,
)
from angelia_client.retries import NO_RETRIES, Retries
from angelia_client.sync.client import Angelia

__all__ = [
    "NO_RETRIES",
    "AccessDeniedError",
    "Angelia",
    "ApiKey",
    "AsyncAngelia",
    "AuditEvent",
    "BatchResult",
    "ClientError",
    "ConflictError",
    "DiscardQuery",
    "FieldProblem",
    "InvalidError",
    "Job",
    "Message",
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
    "Retries",
    "Scope",
    "ServiceError",
    "SigningSecret",
    "Subscription",
    "SubscriptionMetrics",
    "ThrottledError",
    "Topic",
    "TopicMetrics",
    "TraceEntry",
    "Undelivered",
    "UnreachableError",
]

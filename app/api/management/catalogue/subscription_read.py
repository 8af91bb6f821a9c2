"""Subscriptions in responses."""

from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import Schema
from app.api.management.fields.circuit import CircuitBreakerBody, circuit_breaker_body
from app.api.management.fields.client_certificate import ClientCertificateRead
from app.api.management.fields.dead_letter import DeadLetterBody, dead_letter_body
from app.api.management.fields.fetch import FetchBody
from app.api.management.fields.filters import FilterBody
from app.api.management.fields.headers import HeaderRead
from app.api.management.fields.monitoring import MonitoringBody
from app.api.management.fields.oauth import OAuthPolicyBody, oauth_body
from app.api.management.fields.owner import OwnerBody
from app.api.management.fields.policy import PolicyRead
from app.api.management.fields.signing import SigningSecretRead, signing_read
from app.api.management.fields.tracking import Mode
from app.domain.catalogue.subscription import State, Subscription
from app.domain.secrets import masked_url
from app.domain.trace import TrackingMode


class SubscriptionRead(Schema):
    """A subscription in responses, with the fields for old and new clients.

    Passwords and header values are masked; times are decimal seconds since the epoch.
    """

    name: str
    topic_name: str
    endpoint: str
    description: str
    contact: str
    owner: OwnerBody
    support_team: str
    state: Literal["PENDING", "ACTIVE", "SUSPENDED"]
    state_reason: str | None = None
    subscription_policy: PolicyRead
    retryable_status_codes: tuple[int, ...] = ()
    suspend_on_gone: bool = True
    failure_expression: str | None = None
    headers: tuple[HeaderRead, ...] = ()
    signing_secrets: tuple[SigningSecretRead, ...] | None = None
    subscription_identity_headers_enabled: bool = False
    idempotency_key_enabled: bool = True
    o_auth_policy: OAuthPolicyBody | None = None
    content_type: Literal["JSON", "AVRO"] = "JSON"
    delivery_type: Literal["SERIAL", "BATCH"] = "SERIAL"
    batch_format: Literal["WRAPPED", "PLAIN", "NDJSON"] = "WRAPPED"
    mode: Literal["ANYCAST", "BROADCAST"] = "ANYCAST"
    tracking_enabled: bool = False
    tracking_mode: Mode = "trackingOff"
    monitoring_details: MonitoringBody = MonitoringBody()
    filters: tuple[FilterBody, ...] = ()
    ordering: Literal["NONE", "KEY", "PARTITION"] = "NONE"
    circuit_breaker: CircuitBreakerBody | None = None
    dead_letter: DeadLetterBody | None = None
    client_certificate: ClientCertificateRead | None = None
    fetch: FetchBody = FetchBody()
    content_mode: Literal["PLAIN", "CE_BINARY", "CE_STRUCTURED"] = "PLAIN"
    endpoint_address_resolver_metadata: dict[str, Any] = Field(default_factory=dict)
    http2_enabled: bool = False
    auto_delete_with_topic_enabled: bool = False
    profiling_enabled: bool = False
    profiling_threshold_ms: int = 0
    created_at: float | None = None
    modified_at: float | None = None


def subscription_read(subscription: Subscription, state: State) -> SubscriptionRead:
    """Return the response for `subscription`, which is in `state`."""
    created, modified = subscription.created_at, subscription.modified_at
    return SubscriptionRead(
        name=subscription.name,
        topic_name=subscription.topic,
        endpoint=masked_url(subscription.endpoint),
        description=subscription.description,
        contact=subscription.contact,
        owner=OwnerBody.of(subscription.owner),
        support_team=subscription.owner.id,
        state=state.value,
        # If a secret of the subscription cannot be decrypted, this is the reason that is shown,
        # because it blocks all deliveries.
        state_reason=subscription.locked or subscription.state_reason or None,
        subscription_policy=PolicyRead.of(subscription.policy),
        filters=tuple(FilterBody.of(each) for each in subscription.filters),
        ordering=subscription.ordering.value,
        mode=subscription.mode.value,
        delivery_type=subscription.delivery_type.value,
        batch_format=subscription.batch_format.value,
        circuit_breaker=circuit_breaker_body(subscription),
        dead_letter=dead_letter_body(subscription),
        client_certificate=_certificate_read(subscription),
        http2_enabled=subscription.http2,
        fetch=FetchBody.of(subscription.fetch),
        content_mode=subscription.content_mode.value,
        content_type=subscription.content_type.value,
        retryable_status_codes=tuple(sorted(subscription.retryable_codes)),
        suspend_on_gone=subscription.suspend_on_gone,
        failure_expression=subscription.failure_expression,
        headers=tuple(HeaderRead.of(each) for each in subscription.headers),
        signing_secrets=tuple(map(signing_read, subscription.signing_secrets)) or None,
        subscription_identity_headers_enabled=subscription.identity_headers,
        idempotency_key_enabled=subscription.idempotency_key,
        o_auth_policy=oauth_body(subscription),
        monitoring_details=MonitoringBody.of(subscription.monitoring),
        endpoint_address_resolver_metadata=dict(subscription.resolver_metadata),
        auto_delete_with_topic_enabled=subscription.auto_delete,
        tracking_enabled=subscription.tracking is not TrackingMode.OFF,
        tracking_mode=subscription.tracking.value,
        created_at=created.timestamp() if created else None,
        modified_at=modified.timestamp() if modified else None,
    )


def _certificate_read(subscription: Subscription) -> ClientCertificateRead | None:
    shown = subscription.client_certificate
    return ClientCertificateRead.of(shown) if shown else None

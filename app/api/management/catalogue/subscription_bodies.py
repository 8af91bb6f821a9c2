"""Bodies of requests for subscriptions, in the form of current Hermes and of its old documents."""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    Rules,
    Schema,
    Text,
    Unsupported,
    checked,
    ignored_fields,
    merged,
    off,
    only,
    parse,
)
from app.api.bodies.moments import MomentText
from app.api.management.fields import policy as policy_schema
from app.api.management.fields.circuit import CircuitBreakerBody, circuit_breaker_body
from app.api.management.fields.client_certificate import (
    READ_ONLY as CERTIFICATE_READ_ONLY,
)
from app.api.management.fields.client_certificate import (
    ClientCertificateBody,
    unmasked_key,
)
from app.api.management.fields.dead_letter import DeadLetterBody, dead_letter_body
from app.api.management.fields.endpoint import plain_endpoint
from app.api.management.fields.fetch import FetchBody
from app.api.management.fields.filters import FilterBody, filters_of
from app.api.management.fields.headers import HeaderBody, unmasked
from app.api.management.fields.monitoring import MonitoringBody
from app.api.management.fields.moved_endpoint import require_given_again
from app.api.management.fields.oauth import OAuthPolicyBody, oauth_body
from app.api.management.fields.owner import OWNER_LENGTH_MAX, OwnerBody
from app.api.management.fields.policy import (
    BATCH_DEFAULTS,
    OLD_DEFAULT_RATE,
    PolicyBody,
)
from app.api.management.fields.start_position import position_text
from app.api.management.fields.tracking import (
    ENABLED_TEXT,
    MODE_TEXT,
    Mode,
    by_enabled,
    tracking_of,
)
from app.domain.catalogue.batching import BatchFormat, DeliveryType
from app.domain.catalogue.dead_letter import DeadLetter
from app.domain.catalogue.filters import FILTERS_MAX
from app.domain.catalogue.headers import HEADERS_MAX
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.subscription import (
    ContentMode,
    EndpointMode,
    Ordering,
    State,
    Subscription,
)
from app.domain.errors import SecretUnreadableError, ValidationFailedError
from app.domain.names import subscription_name
from app.domain.owner import Owner
from app.domain.secrets import masked_url
from app.expressions import checked_expression

_TEXT_MAX: Final = 10_000


def _no_metrics(given: object) -> bool:
    below = given.get("messageProcessing", {}) if isinstance(given, dict) else None
    return isinstance(below, dict) and below.get("enabled", False) is False


OTHER_FIELDS: Final = OtherFields(
    read_only=frozenset(
        {
            "createdAt",
            "modifiedAt",
            "stateReason",
            "signingSecrets",
            *(f"subscriptionPolicy.{name}" for name in policy_schema.READ_ONLY),
            *(f"clientCertificate.{name}" for name in CERTIFICATE_READ_ONLY),
        }
    ),
    unsupported={
        "profilingEnabled": Unsupported(harmless=off),
        "profilingThresholdMs": Unsupported(harmless=only(0)),
        "metricsConfig": Unsupported(harmless=_no_metrics),
        **{
            f"subscriptionPolicy.{name}": entry for name, entry in policy_schema.UNSUPPORTED.items()
        },
    },
)


def _failure_expression(text: str) -> str:
    return checked_expression(text, path="failureExpression")


# The field has no limits here, because the domain checks the range, and reports one error for the
# whole list of codes.
ErrorCode = Annotated[int, Field(json_schema_extra={"minimum": 400, "maximum": 599})]


class SubscriptionBody(Schema):
    """A subscription to create or change. In old bodies `supportTeam` is the owner's id."""

    name: Annotated[str, checked(subscription_name)] = Field(examples=["billing"])
    topic_name: str | None = None
    endpoint: Annotated[str, checked(plain_endpoint)] = Field(
        description="its path and query may have {placeholders} for fields of the body",
        examples=["http://127.0.0.1:9000/orders"],
    )
    description: Text = Field(default="", max_length=_TEXT_MAX)
    contact: Text = Field(default="", max_length=_TEXT_MAX)
    owner: OwnerBody | None = None
    support_team: Text | None = Field(default=None, min_length=1, max_length=OWNER_LENGTH_MAX)
    state: Literal["PENDING", "ACTIVE", "SUSPENDED"] = "ACTIVE"
    subscription_policy: PolicyBody = PolicyBody()
    filters: list[FilterBody] = Field(
        default=[], max_length=FILTERS_MAX, description="it gets the messages that match them all"
    )
    ordering: Literal["NONE", "KEY", "PARTITION"] = Field(
        default="NONE",
        description=(
            "messages with one Partition-Key, or of one partition, are sent one after the other"
        ),
    )
    circuit_breaker: CircuitBreakerBody | None = Field(
        default=None, description="send nothing for a while when too much fails in a row"
    )
    dead_letter: DeadLetterBody | None = Field(
        default=None,
        description=(
            "a topic that gets each discarded message, as it was, with headers that say why"
        ),
    )
    mode: Literal["ANYCAST", "BROADCAST"] = Field(
        default="ANYCAST",
        description=(
            "BROADCAST: every address of the endpoint's host gets each message, and it is delivered"
            " once each took it. BATCH has ANYCAST, whatever is said here"
        ),
    )
    delivery_type: Literal["SERIAL", "BATCH"] = Field(
        default="SERIAL",
        description=(
            "BATCH: several messages in one request, one of each partition at a time."
            " When created so, requestTimeout is 30000 and messageBackoff 500 unless given"
        ),
    )
    batch_format: Literal["WRAPPED", "PLAIN", "NDJSON"] = Field(
        default="WRAPPED",
        description=(
            "the body of a batch: a JSON array of objects with metadata and message, a JSON array"
            " of the messages, or a message a line"
        ),
    )
    client_certificate: ClientCertificateBody | None = Field(
        default=None, description="shown to endpoints that ask for one (mutual TLS); https only"
    )
    http2_enabled: bool = Field(
        default=False, description="ask https endpoints for HTTP/2; those that have none get 1.1"
    )
    fetch: FetchBody = FetchBody()
    content_mode: Literal["PLAIN", "CE_BINARY", "CE_STRUCTURED"] = Field(
        default="PLAIN",
        description=(
            "messages as published, or as CloudEvents with their attributes in headers or in JSON."
            " Batches cannot be CE_BINARY; CE_STRUCTURED ignores batchFormat"
        ),
    )
    content_type: Literal["JSON", "AVRO"] = Field(
        default="JSON",
        description=(
            "AVRO: messages of an AVRO topic as they were written, with Schema-Version and"
            " Schema-Id; JSON: as JSON, whatever the topic has"
        ),
    )
    retryable_status_codes: list[ErrorCode] = Field(
        default=[],
        max_length=200,
        description="error codes that are retried",
        examples=[[408, 409]],
    )
    suspend_on_gone: bool = Field(default=True, description="suspend it when a 410 is answered")
    failure_expression: Annotated[str, checked(_failure_expression)] | None = Field(
        default=None,
        description="CEL over status, headers and body: an answer of which it is true is retried",
        examples=["status != 202 || body.contains('error')"],
    )
    headers: list[HeaderBody] = Field(
        default=[], max_length=HEADERS_MAX, description="sent with every message"
    )
    subscription_identity_headers_enabled: bool = Field(
        default=False, description="send Hermes-Topic-Name and Hermes-Subscription-Name"
    )
    idempotency_key_enabled: bool = Field(
        default=True, description="send the message id as Idempotency-Key, too"
    )
    o_auth_policy: OAuthPolicyBody | None = Field(
        default=None, description="how to get the access token that requests carry"
    )
    tracking_mode: Mode | None = Field(default=None, description=MODE_TEXT)
    tracking_enabled: bool | None = Field(default=None, description=ENABLED_TEXT)
    monitoring_details: MonitoringBody = MonitoringBody()
    endpoint_address_resolver_metadata: dict[str, Any] = Field(
        default={}, description="kept as it is, and used for nothing here"
    )
    auto_delete_with_topic_enabled: bool = Field(
        default=False, description="deleted with its topic; false blocks that deletion"
    )

    @classmethod
    def of(cls, subscription: Subscription) -> "SubscriptionBody":
        """Return the body that describes `subscription`, with its endpoint unmasked."""
        return cls(
            name=subscription.name,
            topic_name=subscription.topic,
            endpoint=subscription.endpoint,
            description=subscription.description,
            contact=subscription.contact,
            owner=OwnerBody.of(subscription.owner),
            support_team=subscription.owner.id,
            state=subscription.state.value,
            subscription_policy=PolicyBody.of(subscription.policy),
            filters=[FilterBody.of(each) for each in subscription.filters],
            ordering=subscription.ordering.value,
            mode=subscription.mode.value,
            delivery_type=subscription.delivery_type.value,
            batch_format=subscription.batch_format.value,
            circuit_breaker=circuit_breaker_body(subscription),
            dead_letter=dead_letter_body(subscription),
            client_certificate=_certificate_body(subscription),
            http2_enabled=subscription.http2,
            fetch=FetchBody.of(subscription.fetch),
            content_mode=subscription.content_mode.value,
            content_type=subscription.content_type.value,
            retryable_status_codes=sorted(subscription.retryable_codes),
            suspend_on_gone=subscription.suspend_on_gone,
            failure_expression=subscription.failure_expression,
            headers=[HeaderBody.of(each) for each in subscription.headers],
            subscription_identity_headers_enabled=subscription.identity_headers,
            idempotency_key_enabled=subscription.idempotency_key,
            o_auth_policy=oauth_body(subscription),
            tracking_mode=subscription.tracking.value,
            monitoring_details=MonitoringBody.of(subscription.monitoring),
            endpoint_address_resolver_metadata=dict(subscription.resolver_metadata),
            auto_delete_with_topic_enabled=subscription.auto_delete,
        )

    def to_domain(self, base: Subscription) -> Subscription:
        """Return `base` with all fields of this body, or raise ValidationFailedError."""
        # If the client sends PENDING, the state stays unchanged, because only Angelia sets PENDING.
        state = base.state if self.state == State.PENDING else State(self.state)
        return replace(
            base.in_state(state),
            endpoint=self.endpoint,
            description=self.description,
            contact=self.contact,
            owner=self._owner(base.owner),
            policy=self.subscription_policy.to_domain(),
            filters=filters_of(self.filters, stored=base.filters),
            ordering=Ordering(self.ordering),
            mode=self._endpoint_mode(),
            delivery_type=DeliveryType(self.delivery_type),
            batch_format=BatchFormat(self.batch_format),
            circuit_breaker=self.circuit_breaker.to_domain() if self.circuit_breaker else None,
            dead_letter=DeadLetter(topic=self.dead_letter.topic) if self.dead_letter else None,
            client_certificate=(
                self.client_certificate.to_domain(base.client_certificate)
                if self.client_certificate
                else None
            ),
            http2=self.http2_enabled,
            fetch=self.fetch.to_domain(),
            content_mode=ContentMode(self.content_mode),
            content_type=ContentType(self.content_type),
            retryable_codes=frozenset(self.retryable_status_codes),
            suspend_on_gone=self.suspend_on_gone,
            failure_expression=self.failure_expression,
            headers=tuple(each.to_domain() for each in self.headers),
            identity_headers=self.subscription_identity_headers_enabled,
            idempotency_key=self.idempotency_key_enabled,
            oauth=self.o_auth_policy.to_domain(base.oauth) if self.o_auth_policy else None,
            tracking=tracking_of(self.tracking_mode, self.tracking_enabled),
            monitoring=self.monitoring_details.to_domain(),
            resolver_metadata=self.endpoint_address_resolver_metadata,
            auto_delete=self.auto_delete_with_topic_enabled,
        )

    def _endpoint_mode(self) -> EndpointMode:
        """Return the endpoint mode by Hermes' rules: batches are always ANYCAST.

        For batches, the field `mode` is ignored, because Hermes' console always sends it.
        """
        batched = self.delivery_type == DeliveryType.BATCH
        return EndpointMode.ANYCAST if batched else EndpointMode(self.mode)

    def _owner(self, current: Owner) -> Owner:
        """Return the owner: from `owner` or `supportTeam`, whichever differs from `current`.

        If both fields differ from `current`, they must name the same owner.
        """
        owner = self.owner.to_domain() if self.owner else Owner()
        team = self.support_team
        if team is None or team in {current.id, owner.id}:
            return owner
        if self.owner is not None and owner != current:
            raise ValidationFailedError.of("supportTeam", "must be owner.id, or absent")
        return Owner(id=team)


class NewSubscriptionBody(SubscriptionBody):
    """A subscription to create, and its start position in the topic."""

    start_from: Annotated[MomentText, checked(position_text)] | None = Field(
        default=None,
        description=(
            "the messages that were published since: RFC 3339, ms, or -30m, -6h, -2d; or earliest,"
            " all that the log has; or latest (as without it), none"
        ),
        examples=["-6h", "earliest"],
    )


def _certificate_body(subscription: Subscription) -> ClientCertificateBody | None:
    shown = subscription.client_certificate
    return ClientCertificateBody.of(shown) if shown else None


def new_subscription(topic: str, body: JsonObject, *, strict: bool) -> Subscription:
    """Return the subscription in a creation body, or raise ValidationFailedError."""
    rules = Rules(others=OTHER_FIELDS, fixed={"topicName": topic}, strict=strict)
    wanted = parse(NewSubscriptionBody, _with_defaults(merged({}, body)), rules)
    base = Subscription(id=uuid4().hex, topic=topic, name=wanted.name, endpoint=wanted.endpoint)
    return wanted.to_domain(base)


def changed_subscription(current: Subscription, patch: JsonObject, *, strict: bool) -> Subscription:
    """Return `current` with a merge patch applied.

    Raises:
        ValidationFailedError: The result is invalid; the error lists all problems of the result.
        SecretUnreadableError: A stored secret cannot be decrypted, and the change would lose it.
    """
    if current.locked:
        raise SecretUnreadableError(current.locked)
    before: JsonObject = SubscriptionBody.of(current).model_dump()
    fixed = {"topicName": current.topic, "name": current.name}
    rules = Rules(others=OTHER_FIELDS, fixed=fixed, strict=strict)
    wanted = by_enabled(merged(before, patch), patch, current.tracking)
    if wanted.get("endpoint") == masked_url(current.endpoint):
        wanted["endpoint"] = current.endpoint
    if "headers" in wanted:
        wanted["headers"] = unmasked(wanted["headers"], current.headers)
    if "clientCertificate" in wanted:
        shown = unmasked_key(wanted["clientCertificate"], current.client_certificate)
        wanted["clientCertificate"] = shown
    changed = parse(SubscriptionBody, wanted, rules).to_domain(current)
    require_given_again(current, changed, patch)
    return changed


def ignored_in_subscription(body: JsonObject, *, new: bool = False) -> tuple[Ignored, ...]:
    """Return the fields of a subscription body that have no effect.

    With `new`, the body creates a subscription.
    """
    model = NewSubscriptionBody if new else SubscriptionBody
    return ignored_fields(model, body, OTHER_FIELDS)


def _with_defaults(body: JsonObject) -> JsonObject:
    """Return the body with the defaults for the form of the body.

    A body in the old form gets a rate. A body with batches gets longer timeouts.
    """
    if "supportTeam" in body and "owner" not in body:
        body = merged({"subscriptionPolicy": {"rate": OLD_DEFAULT_RATE}}, body)
    if body.get("deliveryType") == DeliveryType.BATCH:
        body = merged({"subscriptionPolicy": BATCH_DEFAULTS}, body)
    return body


def state_of(text: str) -> State:
    """Parse a state from a client, or raise ValidationFailedError."""
    try:
        return State(text)
    except ValueError as exc:
        message = 'must be "ACTIVE" or "SUSPENDED"'
        raise ValidationFailedError.of("state", message) from exc

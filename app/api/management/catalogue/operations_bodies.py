"""Workload constraints, readiness and inactive topics in Hermes' form."""

from typing import Any, Literal

from pydantic import Field

from app.api.bodies.base import (
    Ignored,
    JsonObject,
    OtherFields,
    Rules,
    Schema,
    SchemaT,
    Text,
    ignored_fields,
    merged,
    parse,
)
from app.api.management.discards.undelivered_bodies import epoch_ms
from app.domain.catalogue.operations import (
    CONSUMERS_MAX,
    DATACENTER,
    REASON_LENGTH_MAX,
    Constraints,
    InactiveTopic,
    WorkloadConstraints,
)
from app.domain.errors import ValidationFailedError

_OTHER_FIELDS = OtherFields()
# Hermes' separator between the names of topic and subscription.
_DOLLAR = "$"


class ConstraintsBody(Schema):
    """How many consumers there should be, and why.

    The values are stored for tools that read them, and have no effect: all workers share each
    topic.
    """

    consumers_number: int = Field(ge=1, le=CONSUMERS_MAX)
    reason: Text | None = Field(default=None, max_length=REASON_LENGTH_MAX)

    def to_domain(self) -> Constraints:
        """Return the constraints."""
        return Constraints(consumers=self.consumers_number, reason=self.reason)

    @classmethod
    def of(cls, constraints: Constraints) -> "ConstraintsBody":
        """Return the response for `constraints`."""
        return cls(consumers_number=constraints.consumers, reason=constraints.reason)


class TopicConstraintsBody(Schema):
    """Constraints of all subscriptions of a topic."""

    topic_name: Text = Field(examples=["shop.orders"])
    constraints: ConstraintsBody


class SubscriptionConstraintsBody(Schema):
    """Constraints of one subscription with the name `topic$subscription`."""

    subscription_name: Text = Field(examples=["shop.orders$billing"])
    constraints: ConstraintsBody

    def named(self) -> tuple[str, str]:
        """Return the names of topic and subscription.

        Raises:
            ValidationFailedError: The name does not have the form `topic$subscription`.
        """
        topic, dollar, name = self.subscription_name.partition(_DOLLAR)
        if not (topic and dollar and name):
            raise ValidationFailedError.of("subscriptionName", "must be topic$subscription")
        return topic, name


class WorkloadConstraintsRead(Schema):
    """All workload constraints."""

    topic_constraints: dict[str, ConstraintsBody]
    subscription_constraints: dict[str, ConstraintsBody]

    @classmethod
    def of(cls, found: WorkloadConstraints) -> "WorkloadConstraintsRead":
        """Return the response for these constraints."""
        return cls(
            topic_constraints={
                name: ConstraintsBody.of(each) for name, each in found.topics.items()
            },
            subscription_constraints={
                f"{topic}{_DOLLAR}{name}": ConstraintsBody.of(each)
                for (topic, name), each in found.subscriptions.items()
            },
        )


class ReadinessBody(Schema):
    """Whether publishers and load balancers should use the data centre."""

    is_ready: bool


class DatacenterRead(Schema):
    """The only data centre, with the state set by operators."""

    datacenter: str = DATACENTER
    status: Literal["READY", "NOT_READY"]


class InactiveTopicRead(Schema):
    """A topic without messages for a long time."""

    topic: str
    last_published_ts_ms: int = Field(
        description="when a check (each half hour) last found new messages; if none did, time of"
        " the first check"
    )
    notification_ts_ms: list[int] = Field(default=[], description="always empty")
    whitelisted: bool = False

    @classmethod
    def of(cls, topic: InactiveTopic) -> "InactiveTopicRead":
        """Return the response for `topic`."""
        return cls(topic=topic.name, last_published_ts_ms=epoch_ms(topic.since))


def body_of(model: type[SchemaT], body: JsonObject, *, strict: bool) -> SchemaT:
    """Parse a body.

    Raises:
        ValidationFailedError: The body is not valid.
    """
    return parse(model, merged({}, body), Rules(others=_OTHER_FIELDS, strict=strict))


def ignored_in(model: type[Schema], body: dict[str, Any]) -> tuple[Ignored, ...]:
    """Return the fields of a body that have no effect."""
    return ignored_fields(model, body, _OTHER_FIELDS)

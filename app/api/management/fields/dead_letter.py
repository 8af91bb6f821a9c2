"""`deadLetter` of a subscription."""

from typing import Annotated

from pydantic import Field

from app.api.bodies.base import OwnSchema, checked
from app.domain.catalogue.subscription import Subscription
from app.domain.names import topic_name


class DeadLetterBody(OwnSchema):
    """The topic to which discarded messages are copied."""

    topic: Annotated[str, checked(topic_name)] = Field(
        description="another topic, with a `maxMessageSize` at least as large",
        examples=["shop.dead"],
    )


def dead_letter_body(subscription: Subscription) -> DeadLetterBody | None:
    """Return the body of the subscription's dead-letter topic; None if it has none."""
    wanted = subscription.dead_letter
    return DeadLetterBody(topic=wanted.topic) if wanted else None

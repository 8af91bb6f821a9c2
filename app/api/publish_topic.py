"""Which topic a publish request goes to, and what its answer says of that topic."""

from starlette.types import Scope

from app.api.publish_answers import RawHeaders
from app.api.publish_headers import flag
from app.domain.topic import Topic
from app.services.alternates import routed
from app.services.directory import TopicDirectory


async def publish_topic(name: str, scope: Scope, directory: TopicDirectory) -> Topic:
    """The topic of that name, or with `?mandatory=true` where its messages go (see `routed`).

    TopicNotFoundError, UnroutableError, ValidationFailedError, StorageUnavailableError.
    """
    topic = directory.known(name) or await directory.get(name)
    return await routed(topic, directory) if flag(scope, "mandatory") else topic


def said_of_topic(topic: Topic, asked_for: str, directory: TopicDirectory) -> RawHeaders:
    """How many subscriptions get what was stored, and its topic if it is not the one asked for."""
    said = [(b"angelia-subscriptions", b"%d" % directory.subscriptions(topic.name))]
    if topic.name != asked_for:
        said.append((b"angelia-alternate-topic", topic.name.encode()))
    return said

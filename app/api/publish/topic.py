"""The topics to which a published message may go, and the headers of the response about them."""

from starlette.types import Scope

from app.api.publish.answers import RawHeaders
from app.api.publish.headers import flag
from app.domain.catalogue.topic import Topic
from app.domain.errors import UnroutableError
from app.services.catalogue.alternate_topics import Routes, routes
from app.services.directory.topics import TopicDirectory


async def publish_topic(
    name: str, scope: Scope, directory: TopicDirectory
) -> tuple[Topic, Routes | None]:
    """Return the topic of that name.

    With `?mandatory=true`, the message must reach a subscription. Then return the first topic that
    may get the message, and all topics to try.

    Raises:
        TopicNotFoundError: The topic does not exist.
        UnroutableError: No subscription can get the message.
        ValidationFailedError: A parameter is not valid.
        StorageUnavailableError: The database cannot be reached.
    """
    topic = directory.known(name) or await directory.get(name)
    if not flag(scope, "mandatory"):
        return topic, None
    found = await routes(topic, directory)
    return found.topics[0], found


def unwanted(routes: Routes) -> UnroutableError:
    """Return the error for a message that no subscription of the topics in `routes` wants."""
    names = ", ".join(each.name for each in routes.topics)
    return UnroutableError(f"No active subscription of {names} has filters that let it through")


def topic_headers(topic: Topic, requested_topic: str, directory: TopicDirectory) -> RawHeaders:
    """Return headers with the number of subscriptions of `topic`, which gets the message.

    If `topic` is not the requested topic, a further header has its name.
    """
    headers = [(b"angelia-subscriptions", b"%d" % directory.subscriptions(topic.name))]
    if topic.name != requested_topic:
        headers.append((b"angelia-alternate-topic", topic.name.encode()))
    return headers

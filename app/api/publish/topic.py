"""Which topics a publish request may go to, and what its answer says of the one it went to."""

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
    """The topic of that name; with `?mandatory=true` the first of its routes, and these.

    TopicNotFoundError, UnroutableError, ValidationFailedError, StorageUnavailableError.
    """
    topic = directory.known(name) or await directory.get(name)
    if not flag(scope, "mandatory"):
        return topic, None
    found = await routes(topic, directory)
    return found.topics[0], found


def unwanted(routes: Routes) -> UnroutableError:
    """That nobody wants a message in any of these topics."""
    names = ", ".join(each.name for each in routes.topics)
    return UnroutableError(f"No active subscription of {names} has filters that let it through")


def said_of_topic(topic: Topic, asked_for: str, directory: TopicDirectory) -> RawHeaders:
    """How many subscriptions get what was stored, and its topic if it is not the one asked for."""
    said = [(b"angelia-subscriptions", b"%d" % directory.subscriptions(topic.name))]
    if topic.name != asked_for:
        said.append((b"angelia-alternate-topic", topic.name.encode()))
    return said

"""Alternate topics, which get the messages that no subscription of another topic would get."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from app.domain.catalogue.topic import Topic
from app.domain.errors import TopicNotFoundError, UnroutableError, ValidationFailedError
from app.services.directory.topics import TopicDirectory

ALTERNATES_MAX: Final = 8
"""The maximum number of alternate topics in a row."""

_FIELD: Final = "alternateTopic"


async def require_alternate(topic: Topic, get: Callable[[str], Awaitable[Topic]]) -> None:
    """Check the chain of alternate topics that begins at `topic`.

    A topic can name an alternate topic, which can name another one. All of them must exist, and the
    chain must end. `get` returns a topic by its name. The caller makes sure that no topic changes
    during this call.

    Raises:
        ValidationFailedError: A topic does not exist, or the chain is too long or has no end.
    """
    name = topic.alternate_topic
    for _ in range(ALTERNATES_MAX):
        if name is None:
            return
        if name == topic.name:
            raise ValidationFailedError.of(_FIELD, "must not lead back to the topic itself")
        name = await _next(name, get)
    if name is not None:
        message = f"must be followed by at most {ALTERNATES_MAX - 1} others"
        raise ValidationFailedError.of(_FIELD, message)


class Routes(NamedTuple):
    """The topics that are tried, one after another, for a mandatory message.

    The message goes to the first topic with a subscription that wants the message. If
    `last_takes_all` is true, the last topic is an alternate topic. This topic then gets messages
    that no subscription wants.
    """

    topics: tuple[Topic, ...]
    last_takes_all: bool


async def routes(topic: Topic, directory: TopicDirectory) -> Routes:
    """Return `topic` and its alternate topics, but only topics with an active subscription.

    The last alternate topic is always included. If a topic has a subscription that gets every
    message, its alternate topics are not needed, and this topic is the last one.

    Raises:
        UnroutableError: There is neither an active subscription nor an existing alternate.
        StorageUnavailableError: A database query is needed, and fails.
    """
    following = [topic]
    for _ in range(ALTERNATES_MAX):
        if directory.takes_all(following[-1].name):
            break
        alternate = await _existing(following[-1].alternate_topic, directory)
        if alternate is None:
            break
        following.append(alternate)
    *before, last = following
    active = [each for each in before if directory.is_routable(each.name)]
    if not before and not directory.is_routable(last.name):
        raise UnroutableError(f"Topic {topic.name} has no active subscription")
    return Routes((*active, last), last_takes_all=bool(before))


async def _existing(name: str | None, directory: TopicDirectory) -> Topic | None:
    if name is None:
        return None
    try:
        return directory.known(name) or await directory.get(name)
    except TopicNotFoundError:
        return None


async def _next(name: str, get: Callable[[str], Awaitable[Topic]]) -> str | None:
    try:
        return (await get(name)).alternate_topic
    except TopicNotFoundError as exc:
        raise ValidationFailedError.of(_FIELD, f"must be a topic that exists: {name}") from exc

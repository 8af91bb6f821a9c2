"""Checks which topics can be dead-letter topics, and which changes of these topics are refused.

The caller of each check must hold the lock of changes. So no topic changes between the check and
the change that is checked.
"""

from typing import Final

from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import TopicNotEmptyError, TopicNotFoundError, ValidationFailedError
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository

_FIELD: Final = "deadLetter.topic"


async def require_dead_letter(subscription: Subscription, topics: TopicRepository) -> None:
    """Check that the subscription's dead-letter topic exists, and allows large enough messages.

    The dead-letter topic must allow the largest messages that the subscription's topic allows.

    Raises:
        ValidationFailedError: The dead-letter topic does not exist, or allows only smaller
            messages.
    """
    if subscription.dead_letter is None:
        return
    name = subscription.dead_letter.topic
    try:
        taking = await topics.get(name)
    except TopicNotFoundError as exc:
        raise ValidationFailedError.of(_FIELD, f"must be a topic that exists: {name}") from exc
    largest = (await topics.get(subscription.topic)).message_size_max
    if taking.message_size_max < largest:
        message = f"must be a topic whose maxMessageSize is at least {largest}"
        raise ValidationFailedError.of(_FIELD, message)


async def require_room(
    topic: Topic, topics: TopicRepository, subscriptions: SubscriptionRepository
) -> None:
    """Check that dead letters are not too large after a change of the size limit of `topic`.

    A dead-letter topic must allow messages as large as the topics whose discards it gets. `topic`
    may be a dead-letter topic itself, or its subscriptions may have dead-letter topics.

    Raises:
        ValidationFailedError: Some dead letters would be larger than their dead-letter topic
            allows.
    """
    for each in await subscriptions.dead_lettering(topic.name):
        if each.dead_letter is None:
            continue
        if each.topic == topic.name:
            taking = await topics.get(each.dead_letter.topic)
            fits = topic.message_size_max <= taking.message_size_max
            bound = f"at most {taking.message_size_max}, as in {taking.name}"
        else:
            source = await topics.get(each.topic)
            fits = topic.message_size_max >= source.message_size_max
            bound = f"at least {source.message_size_max}, as in {source.name}"
        if not fits:
            message = f"must be {bound}: subscription {each.name} of {each.topic} has dead letters"
            raise ValidationFailedError.of("maxMessageSize", message)


async def require_no_letters(name: str, subscriptions: SubscriptionRepository) -> None:
    """Check that no subscription of another topic uses the topic `name` as dead-letter topic.

    Raises:
        TopicNotEmptyError: A subscription uses the topic as its dead-letter topic.
    """
    for each in await subscriptions.dead_lettering(name):
        if each.topic != name:
            message = f"Topic {name} takes the dead letters of {each.topic}, subscription "
            raise TopicNotEmptyError(message + each.name)

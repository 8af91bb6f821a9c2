"""Subscriptions that are deleted with their topic (`autoDeleteWithTopicEnabled`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from app.domain.access.audit import Action, Change
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import NotFoundError, UnavailableError
from app.domain.message import Partition
from app.log.interface import MessageLog
from app.services.access.audit import Describe, note
from app.services.replay.retransmission_changes import RetransmissionChanges
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.database import Session

_log = structlog.get_logger(__name__)


def named(subscription: Subscription) -> Mapping[str, Any]:
    """Return the fields that every audit event about a subscription has."""
    return {"topicName": subscription.topic, "name": subscription.name}


async def delete_those_that_go_with(
    topic: str,
    session: Session,
    *,
    describe: Describe[Subscription],
) -> Sequence[Subscription]:
    """Delete all subscriptions of the topic if each allows its deletion; otherwise delete none.

    The retransmissions of the deleted subscriptions end too. The caller must hold the lock of
    changes, so that no subscription is created during this call. The result has the deleted
    subscriptions.
    """
    subscriptions, events = SubscriptionRepository(session), AuditRepository(session)
    retransmissions = RetransmissionChanges(session)
    found = await subscriptions.of_topic(topic)
    if not all(each.auto_delete for each in found):
        return ()
    for each in found:
        await subscriptions.delete(topic, each.name)
        event = Change(
            action=Action.REMOVED,
            kind="subscription",
            name=f"{topic}/{each.name}",
            before=describe(each),
        )
        await note(events, event)
        await retransmissions.cancel_all(each)
    return found


async def forget_offsets(log: MessageLog, gone: Sequence[Subscription], topic: Topic) -> None:
    """Delete the offsets of deleted subscriptions in the log, because nobody needs them any more.

    `gone` has the deleted subscriptions. If the log does not respond, the offsets stay.
    """
    partitions = [Partition(topic.name, index) for index in range(topic.partitions)]
    for each in gone:
        try:
            await log.forget(each.group, partitions)
        except (UnavailableError, NotFoundError) as error:
            _log.info("offsets_left_behind", group=each.group, reason=error.message)
            return

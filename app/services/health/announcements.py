"""Publishes alerts to the topic `angelia.alerts`, which is created when it is first needed."""

import json
from contextlib import suppress
from datetime import timedelta
from typing import Final

from app.domain.catalogue.topic import Ack, PublishAuth, Topic
from app.domain.errors import TopicExistsError, TopicNotFoundError
from app.domain.health.alert_events import CONTENT_TYPE, alert_event, event_id
from app.domain.health.alerts import Alert
from app.domain.message import NewRecord
from app.domain.owner import Owner
from app.domain.streams import ALERTS
from app.log.interface import MessageLog
from app.services.catalogue.topics import TopicService
from app.services.publishing.publisher import Publication, record_of
from app.storage.database import Database
from app.storage.health.alerts import AlertRepository, Announcement

ALERT_TOPIC: Final = Topic(
    name=ALERTS,
    owner=Owner(id="angelia"),
    description="What is wrong with subscriptions, by Angelia itself",
    # Use one partition, so that the start of an alert is read before its end. The topic of alerts
    # has few messages, so one partition is enough.
    partitions=1,
    retention=timedelta(days=7),
    ack=Ack.ALL,
    # Allow only admins to publish to the topic of alerts, beside Angelia itself. Without access
    # control, everybody may publish there.
    auth=PublishAuth(enabled=True, unauthenticated_access=False),
)


class Announcer:
    """Publishes a message when an alert is raised or cleared, at least once, with its own id.

    If the log was down or the process died, the alert is published later. Alerts about
    subscriptions of the topic of alerts are not published: if such a subscription had a problem,
    each alert would cause another alert.
    """

    def __init__(self, database: Database, log: MessageLog, topics: TopicService) -> None:
        self._database = database
        self._log = log
        self._topics = topics

    async def announce(self) -> None:
        """Publish all alerts that are not published yet.

        Raises:
            StorageUnavailableError: The database cannot be reached.
            LogUnavailableError: The log cannot be reached.
        """
        async with self._database.transaction() as session:
            waiting = await AlertRepository(session).unannounced()
        if not waiting:
            return
        if records := [record for each in waiting for record in _records(each)]:
            await self._append(records)
        # Mark the alerts as published after they are in the log. If the process dies before this,
        # they are published twice, and both messages have the same id.
        async with self._database.transaction() as session:
            await AlertRepository(session).announced([each.alert for each in waiting])

    async def make_topic(self) -> None:
        """Create the topic of alerts, if it does not exist.

        Raises:
            StorageUnavailableError: The database cannot be reached.
            LogUnavailableError: The log cannot be reached.
        """
        with suppress(TopicExistsError):
            await self._topics.create(ALERT_TOPIC)

    async def _append(self, records: list[NewRecord]) -> None:
        try:
            await self._log.append(ALERTS, records, ack=ALERT_TOPIC.ack)
        except TopicNotFoundError:
            await self.make_topic()
            await self._log.append(ALERTS, records, ack=ALERT_TOPIC.ack)


def _records(waiting: Announcement) -> list[NewRecord]:
    alert = waiting.alert
    if alert.topic == ALERTS:
        return []
    states = [True] if waiting.raised else []
    states += [] if alert.cleared_at is None else [False]
    return [_record(alert, raised=raised) for raised in states]


def _record(alert: Alert, *, raised: bool) -> NewRecord:
    event = alert_event(alert, raised=raised)
    at = alert.raised_at if raised or alert.cleared_at is None else alert.cleared_at
    publication = Publication(
        id=event_id(alert, raised=raised).encode(),
        body=json.dumps(event, ensure_ascii=False).encode(),
        content_type=CONTENT_TYPE.encode(),
        partition_key=event["subject"].encode(),
    )
    return record_of(publication, now_ms=round(at.timestamp() * 1000))

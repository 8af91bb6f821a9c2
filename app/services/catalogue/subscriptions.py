"""Subscriptions: creation, look-up, changes and deletion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import structlog

from app.domain.access.audit import Action, Change
from app.domain.access.keys import NOBODY, Caller
from app.domain.catalogue.log_claims import Intent
from app.domain.catalogue.schema import ContentType
from app.domain.catalogue.start_position import FIELD, Beginning, Edge, beginning_text
from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import initial_metadata
from app.domain.errors import (
    AngeliaError,
    LogUnavailableError,
    NotFoundError,
    TopicNotFoundError,
    UnavailableError,
    ValidationFailedError,
)
from app.domain.message import Partition
from app.domain.network.egress import EgressPolicy
from app.domain.paging import ALL_NAMES, NamePage
from app.log.interface import Committed, MessageLog
from app.services.access.audit import Check, Describe, note, whatever
from app.services.applied_changes import APPLIED_WITHIN, AppliedChanges
from app.services.catalogue.dead_letters import require_dead_letter
from app.services.catalogue.history import History, StartPlan, opened, requested_history
from app.services.catalogue.oauth_providers import require_provider
from app.services.filtered_headers import require_filter_headers
from app.services.log_claims import Claimed, LogClaims
from app.services.replay.retransmission_changes import RetransmissionChanges
from app.storage.access.audit import AuditRepository
from app.storage.catalogue.changes import ChangeFeed
from app.storage.catalogue.oauth_providers import OAuthProviderRepository
from app.storage.catalogue.subscriptions import SubscriptionRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database
from app.storage.health.statuses import StatusRepository
from app.storage.health.workers import WorkerRepository

_log = structlog.get_logger(__name__)

# How long the response to the creation of a subscription waits for workers. A short time is enough:
# the subscription gets every message from its first offset on, even if a worker starts it later.
CREATED_WITHIN: Final = timedelta(milliseconds=500)

# The prefix in the name of a claim for the first offsets of a consumer group.
_GROUP: Final = "group "
_HOW_TO_ALLOW: Final = "the operator may allow networks by ANGELIA_ALLOW_PRIVATE_ENDPOINTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A subscription after a creation or a change.

    `applied` tells whether all running workers have applied the change. For a new subscription,
    `history` describes the requested messages that the log does not have; None if there are none.
    """

    subscription: Subscription
    applied: bool
    history: History | None = None

    @property
    def state(self) -> State:
        """The subscription's state, in the form that users see."""
        return visible_state(self.subscription, taken_up=self.applied)


class SubscriptionService:
    """Creates, looks up, changes and deletes subscriptions; a change is one transaction.

    Calls to the log are made outside of transactions. So if the log does not respond, only the
    request that needs the log is delayed.
    """

    def __init__(
        self,
        database: Database,
        log: MessageLog,
        applied: AppliedChanges,
        *,
        egress: EgressPolicy,
        describe: Describe[Subscription],
    ) -> None:
        self._database = database
        self._claims = LogClaims(database)
        self._describe = describe
        self._log = log
        self._applied = applied
        self._egress = egress

    async def names(
        self, topic: str, page: NamePage = ALL_NAMES, *, tracked: bool = False
    ) -> Sequence[str]:
        """Return a page of the names of the topic's subscriptions. By default, return all names.

        With `tracked`, only subscriptions with tracing are included.

        Raises:
            TopicNotFoundError: The topic does not exist.
        """
        async with self._database.transaction() as session:
            return await SubscriptionRepository(session).names(topic, page, tracked=tracked)

    async def get(self, topic: str, name: str) -> tuple[Subscription, State]:
        """Return the subscription, and the state that users see.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            found = await SubscriptionRepository(session).get(topic, name)
            applied = await WorkerRepository(session).applied()
        return found, visible_state(found, taken_up=applied >= found.change)

    async def create(
        self,
        draft: Subscription,
        beginning: Beginning = Edge.LATEST,
        *,
        caller: Caller = NOBODY,
    ) -> Acknowledged:
        """Create a subscription, which gets all messages from `beginning` on, by default from now.

        If only the archive has some of these messages, a retransmission sends them. If an error is
        raised, nothing is created.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionExistsError: The subscription already exists.
            LogUnavailableError: The log cannot be reached.
            JobQueueFullError: Too many jobs are waiting.
            PermissionDeniedError: The caller may not use the OAuth provider.
            ValidationFailedError: The endpoint, the dead-letter topic or the OAuth provider is not
                valid.
        """
        self._require_allowed(draft.endpoint)
        # Claim the name of the subscription before its first offsets are committed to the log.
        # Otherwise this commit could move the offsets of an existing subscription.
        async with self._claims.claimed(_GROUP + draft.group, Intent.COMMIT) as claim:
            topic = await self._require_creatable(draft, caller)
            try:
                opening = await self._opened(draft, beginning)
            except LogUnavailableError:
                await self._require_unchanged(topic)
                raise
            try:
                made = await self._add(draft, opening, topic=topic, claim=claim, caller=caller)
            except AngeliaError:
                await self._forget(draft)
                raise
            created, history = made
        applied = await self._applied.wait(created.change, within=CREATED_WITHIN)
        return Acknowledged(subscription=created, applied=applied, history=history)

    async def _require_creatable(self, draft: Subscription, caller: Caller) -> Topic:
        """Check that the subscription may be created, and return its topic.

        The checks are made before the log is changed. So an error leaves nothing in the log.
        """
        async with self._database.transaction() as session:
            topic = await TopicRepository(session).get(draft.topic)
            require_content(draft, topic)
            await require_dead_letter(draft, TopicRepository(session))
            await require_filter_headers(draft.filters, draft.topic, TopicRepository(session))
            await require_provider(draft, OAuthProviderRepository(session), caller)
            await SubscriptionRepository(session).require_new(draft.topic, draft.name)
        return topic

    async def _opened(self, draft: Subscription, beginning: Beginning) -> StartPlan:
        """Return the start offsets of the subscription. They are committed to the log."""
        # Read the start offsets before the subscription is stored in the database. So messages
        # that are published after the response have higher offsets, and are delivered.
        opening = await opened(self._database, self._log, topic=draft.topic, beginning=beginning)
        await self._commit_start(draft, opening.begins)
        return opening

    async def _require_unchanged(self, topic: Topic) -> None:
        """Raise TopicNotFoundError if the topic was deleted, which can be why the log failed."""
        async with self._database.transaction() as session:
            _require_same(topic, await TopicRepository(session).get(topic.name))

    async def _add(
        self,
        draft: Subscription,
        opening: StartPlan,
        *,
        topic: Topic,
        claim: Claimed,
        caller: Caller,
    ) -> tuple[Subscription, History | None]:
        start = {partition.index: offset for partition, offset in opening.begins.items()}
        async with self._database.transaction() as session:
            created = await SubscriptionRepository(session).add(replace(draft, start=start))
            await require_dead_letter(created, TopicRepository(session))
            await require_filter_headers(created.filters, created.topic, TopicRepository(session))
            await require_provider(created, OAuthProviderRepository(session), caller)
            event = self._change(Action.CREATED, after=created)
            await note(AuditRepository(session), _with_beginning(event, opening.beginning))
            _require_same(topic, await TopicRepository(session).get(topic.name))
            history = await requested_history(session, created, opening)
            # Write the start positions of the subscription, so that metrics show its lag before a
            # worker starts it.
            await StatusRepository(session).write(opening.cursors(created), [])
            await claim.give_up(session)
        return created, history

    async def change(
        self,
        topic: str,
        name: str,
        edit: Callable[[Subscription], Subscription],
        *,
        caller: Caller = NOBODY,
        dry_run: bool = False,
    ) -> Acknowledged:
        """Replace the subscription by the result of `edit`. If nothing changes, nothing is written.

        With `dry_run`, nothing is written at all. The result shows the subscription as the change
        would make it. Errors of `edit` are raised too.

        Raises:
            TopicNotFoundError: The topic does not exist.
            SubscriptionNotFoundError: The subscription does not exist.
            PermissionDeniedError: The caller may not use the OAuth provider.
            ValidationFailedError: The endpoint, the dead-letter topic or the OAuth provider is not
                valid.
        """
        async with self._database.transaction() as session:
            # Take the lock of changes, so that the subscription does not change between reading and
            # writing.
            await ChangeFeed(session).next_number()
            subscriptions = SubscriptionRepository(session)
            current = await subscriptions.get(topic, name)
            wanted = edit(current)
            if wanted.endpoint != current.endpoint:
                self._require_allowed(wanted.endpoint)
            if wanted.dead_letter != current.dead_letter:
                await require_dead_letter(wanted, TopicRepository(session))
            if wanted.filters != current.filters:
                await require_filter_headers(wanted.filters, topic, TopicRepository(session))
            if wanted.content_type is not current.content_type:
                require_content(wanted, await TopicRepository(session).get(topic))
            if (wanted.oauth, wanted.endpoint) != (current.oauth, current.endpoint):
                await require_provider(wanted, OAuthProviderRepository(session), caller)
            if dry_run:
                applied = await WorkerRepository(session).applied() >= current.change
                return Acknowledged(subscription=wanted, applied=applied)
            changed = current
            if wanted != current:
                changed = await _stored(wanted, current, subscriptions)
                event = self._change(Action.UPDATED, before=current, after=changed)
                await note(AuditRepository(session), event)
        applied = await self._applied.wait(changed.change, within=APPLIED_WITHIN)
        return Acknowledged(subscription=changed, applied=applied)

    async def set_state(
        self, topic: str, name: str, state: State, *, check: Check[Subscription] = whatever
    ) -> Acknowledged:
        """Suspend or activate the subscription.

        Only Angelia sets the state PENDING, so a request for PENDING changes nothing (as in
        Hermes). Errors of `change` and of `check` are raised too.
        """

        def edit(current: Subscription) -> Subscription:
            check(current)
            return current if state is State.PENDING else current.in_state(state)

        return await self.change(topic, name, edit)

    async def delete(self, topic: str, name: str, *, check: Check[Subscription] = whatever) -> bool:
        """Delete the subscription and its retransmissions.

        If `check` raises an error, nothing is deleted.

        Returns:
            Whether all running workers have stopped the deliveries of the subscription.

        Raises:
            SubscriptionNotFoundError: The subscription does not exist.
        """
        async with self._database.transaction() as session:
            deleted = await SubscriptionRepository(session).delete(topic, name)
            check(deleted)
            event = self._change(Action.REMOVED, before=deleted)
            await note(AuditRepository(session), event)
            await RetransmissionChanges(session).cancel_all(deleted)
            number = await ChangeFeed(session).current()
        applied = await self._applied.wait(number, within=APPLIED_WITHIN)
        await self._forget(deleted)
        return applied

    def _change(
        self,
        action: Action,
        *,
        before: Subscription | None = None,
        after: Subscription | None = None,
    ) -> Change:
        subscription = after or before
        return Change(
            action=action,
            kind="subscription",
            name=f"{subscription.topic}/{subscription.name}" if subscription else "",
            before=self._describe(before) if before else None,
            after=self._describe(after) if after else None,
        )

    def _require_allowed(self, endpoint: str) -> None:
        """Refuse an endpoint with a forbidden address when the subscription is stored.

        The name of a host may still resolve to a forbidden address later. Then each delivery is
        refused.
        """
        parts = urlsplit(endpoint)
        problem = self._egress.endpoint_problem(parts.scheme, parts.hostname or "", parts.port)
        if problem is not None:
            _log.warning("egress_refused", host=parts.hostname, reason=problem)
            raise ValidationFailedError.of(
                "endpoint", f"cannot be delivered to: {problem}; {_HOW_TO_ALLOW}"
            )

    async def _commit_start(
        self, subscription: Subscription, begins: Mapping[Partition, int]
    ) -> None:
        metadata = initial_metadata(subscription.id)
        start = {partition: Committed(at, metadata) for partition, at in begins.items()}
        if failed := await self._log.commit({subscription.group: start}):
            message = f"The log did not take the first offsets: {next(iter(failed.values()))}"
            raise LogUnavailableError(message)

    async def _forget(self, deleted: Subscription) -> None:
        """Delete the offsets of a deleted subscription in the log.

        If a new subscription has the same name, nothing is deleted. The deletion only saves space.
        Each offset has the id of its subscription, so a new subscription never uses the offsets of
        an old one.
        """
        try:
            async with self._database.transaction() as session:
                names = await SubscriptionRepository(session).names(deleted.topic)
            if deleted.name in names:
                return
            partitions = await self._log.partitions(deleted.topic)
            await self._log.forget(deleted.group, partitions)
        except (UnavailableError, NotFoundError) as error:
            _log.info("offsets_left_behind", group=deleted.group, reason=error.message)


async def _stored(
    wanted: Subscription, current: Subscription, subscriptions: SubscriptionRepository
) -> Subscription:
    if wanted == current.in_state(wanted.state, reason=wanted.state_reason):
        # Change only the state of the subscription, if nothing else differs. So this change is
        # possible even if the subscription's secrets cannot be read or written.
        return await subscriptions.set_state(wanted)
    return await subscriptions.update(wanted)


def _with_beginning(event: Change, beginning: Beginning) -> Change:
    if beginning is Edge.LATEST:
        return event
    return replace(event, after={**(event.after or {}), FIELD: beginning_text(beginning)})


def visible_state(subscription: Subscription, *, taken_up: bool) -> State:
    """Return the subscription's state, in the form that users see.

    A new active subscription is PENDING until a worker has applied its creation.
    """
    untouched = subscription.created_at == subscription.modified_at
    if subscription.state is State.ACTIVE and untouched and not taken_up:
        return State.PENDING
    return subscription.state


def require_content(subscription: Subscription, topic: Topic) -> None:
    """Check that the topic has the content type that the subscription requires.

    Raises:
        ValidationFailedError: The subscription requires AVRO, and the topic is not AVRO.
    """
    if subscription.content_type is ContentType.AVRO is not topic.content_type:
        raise ValidationFailedError.of("contentType", "must be JSON: its topic is not of AVRO")


def _require_same(before: Topic, now: Topic) -> None:
    """Check that a topic was not deleted and created again between two reads of the topic."""
    if now.created_at != before.created_at:
        message = f"Topic {now.name} was replaced meanwhile"
        raise TopicNotFoundError(message)

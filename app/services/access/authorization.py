"""Permissions: who a caller is, by the API key, and which roles the caller has for a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from app.domain.access.audit import Action, Change
from app.domain.access.keys import EVERYBODY, NOBODY, Caller, Mode, Role
from app.domain.catalogue.subscription import Subscription
from app.domain.catalogue.topic import Topic
from app.domain.errors import (
    KeyMissingError,
    NotFoundError,
    PermissionDeniedError,
    PublishingDeniedError,
    ReadOnlyError,
)
from app.domain.names import group_of
from app.services.access.audit import note
from app.services.access.known_keys import KnownKeys
from app.storage.access.audit import AuditRepository
from app.storage.access.keys import AccessRepository
from app.storage.catalogue.groups import GroupRepository
from app.storage.catalogue.owners import OwnerRepository
from app.storage.catalogue.topics import TopicRepository
from app.storage.database import Database

_NEEDED: Final = "an API key is needed: send `Authorization: Bearer ang_…`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a request: a group, a topic, or one of the topic's subscriptions."""

    group: str | None = None
    topic: str | None = None
    subscription: str | None = None


class Gate:
    """The access control of publishing. Only an unknown key may need a database query."""

    def __init__(self, keys: KnownKeys, *, controlled: bool) -> None:
        self._keys = keys
        self._controlled = controlled

    async def caller(self, token: bytes | None) -> Caller:
        """Return the publisher; NOBODY without a token.

        Raises:
            KeyRefusedError: The key is not valid.
            StorageUnavailableError: The database cannot be reached.
        """
        if not self._controlled:
            return EVERYBODY
        if token is None:
            return NOBODY
        return self._keys.known(token) or await self._keys.caller(token)

    def require(self, caller: Caller, topic: Topic) -> None:
        """Check that the caller may publish to the topic.

        A topic that names its publishers (`auth`, as in Hermes) accepts messages only from them and
        from admins. Other topics accept messages from keys that may publish to them, and from their
        owners.

        Raises:
            KeyMissingError: The topic needs a key.
            PublishingDeniedError: The caller may not publish.
        """
        auth, grants = topic.auth, caller.grants
        if not auth.enabled:
            if grants.publishes_to(topic.name) or grants.owns_topic(topic.name, topic.owner):
                return
        elif caller.key_id is None:
            if auth.unauthenticated_access:
                return
        elif grants.admin or caller.name in auth.publishers:
            return
        if caller is NOBODY:
            raise KeyMissingError(f"To publish to {topic.name} {_NEEDED}")
        raise PublishingDeniedError(f"{caller.name} may not publish to {topic.name}")


class AccessService:
    """Decides what callers may do. Without access control, everybody may do everything."""

    def __init__(self, database: Database, keys: KnownKeys, *, controlled: bool) -> None:
        self._database = database
        self._keys = keys
        self._controlled = controlled

    @property
    def controlled(self) -> bool:
        """Whether callers need keys."""
        return self._controlled

    def may_change(self, caller: Caller) -> bool:
        """Whether the caller may change anything now.

        The mode of the service can forbid changes. Admins may make changes in any mode. Without
        access control, nobody is an admin.
        """
        exempt = self._controlled and caller.grants.admin
        return exempt or self.mode is Mode.READ_WRITE

    @property
    def mode(self) -> Mode:
        """The mode of the service, which says whether changes are allowed, as last read."""
        return self._keys.mode

    async def caller(self, token: bytes | None) -> Caller:
        """Return the caller; NOBODY without a token.

        Raises:
            KeyRefusedError: The key is not valid.
            StorageUnavailableError: The database cannot be reached.
        """
        if not self._controlled:
            return EVERYBODY
        return NOBODY if token is None else await self._keys.caller(token)

    async def require(self, caller: Caller, role: Role, target: Target) -> None:
        """Check that the caller has the role for the target.

        Raises:
            KeyMissingError: A key is needed, and none was sent.
            PermissionDeniedError: The caller lacks the permission.
            NotFoundError: The target does not exist, so it is unknown whether the caller owns it.
        """
        if await self._has(caller, role, target):
            return
        if caller is NOBODY:
            raise KeyMissingError(f"For this {_NEEDED}")
        raise PermissionDeniedError(f"{caller.name} may not do this: it takes the role {role}")

    def require_writable(self, caller: Caller) -> None:
        """Check that the caller may change anything now: see `may_change`.

        Raises:
            ReadOnlyError: The mode forbids changes.
        """
        if not self.may_change(caller):
            raise ReadOnlyError("Action forbidden due to read-only mode")

    async def set_mode(self, mode: Mode) -> None:
        """Change the mode of all API processes."""
        async with self._database.transaction() as session:
            before = await AccessRepository(session).set_mode(mode)
            change = Change(
                action=Action.UPDATED,
                kind="mode",
                name="mode",
                before={"mode": before.value},
                after={"mode": mode.value},
            )
            await note(AuditRepository(session), change)
        await self._keys.refresh()

    async def roles(self, caller: Caller, target: Target) -> Sequence[Role]:
        """Return the roles, in Hermes' terms, that the caller has for the target."""
        requested = [Role.ANY, Role.ADMIN]
        if target.topic is not None:
            requested.append(Role.TOPIC_OWNER)
        if target.subscription is not None:
            requested.append(Role.SUBSCRIPTION_OWNER)
        return [role for role in requested if await self._has_if_any(caller, role, target)]

    def require_new_group(self, caller: Caller, name: str) -> None:
        """Check that the caller may create the group.

        Raises:
            PermissionDeniedError: The caller lacks the permission.
        """
        if not caller.grants.owns_group(name):
            raise PermissionDeniedError(f"{caller.name} may not create the group {name}")

    async def require_new_topic(self, caller: Caller, topic: Topic) -> None:
        """Check that the caller may create the topic, and its group if the group does not exist.

        Raises:
            PermissionDeniedError: The caller lacks the permission.
        """
        if caller.grants.owns_group(topic.group):
            return
        if not caller.grants.owns_topic(topic.name, topic.owner):
            raise PermissionDeniedError(
                f"{caller.name} may not create {topic.name} for {topic.owner.id}"
            )
        async with self._database.transaction() as session:
            if not await GroupRepository(session).exists(topic.group):
                self.require_new_group(caller, topic.group)

    async def require_new_subscription(self, caller: Caller, draft: Subscription) -> None:
        """Check that the caller may create the subscription.

        Raises:
            PermissionDeniedError: The caller lacks the permission.
            TopicNotFoundError: The topic does not exist.
        """
        grants = caller.grants
        if grants.admin:
            return
        async with self._database.transaction() as session:
            topic = await TopicRepository(session).get(draft.topic)
        if grants.owns_topic(topic.name, topic.owner):
            return
        if topic.subscribing_restricted:
            raise PermissionDeniedError(f"Only owners of {topic.name} subscribe to it")
        if not grants.owns_subscription(draft.topic, draft.name, draft.owner):
            raise PermissionDeniedError(f"{caller.name} may not subscribe for {draft.owner.id}")

    async def require_feeding(self, caller: Caller, name: str, *, path: str) -> None:
        """Check that the caller may send messages of other topics to the topic `name`.

        If that topic does not exist, no error is raised here.

        Raises:
            PermissionDeniedError: The caller lacks the permission.
        """
        if caller.grants.publishes_to(name):
            return
        if not await self._has_if_any(caller, Role.TOPIC_OWNER, Target(topic=name)):
            raise PermissionDeniedError(f"{path}: {caller.name} may not publish to {name}")

    async def _has_if_any(self, caller: Caller, role: Role, target: Target) -> bool:
        try:
            return await self._has(caller, role, target)
        except NotFoundError:
            return False

    async def _has(  # noqa: PLR0911 - one return for each role
        self, caller: Caller, role: Role, target: Target
    ) -> bool:
        if role is Role.OPEN or caller.grants.admin:
            return True
        if caller is NOBODY:
            return False
        match role:
            case Role.ANY:
                return True
            case Role.CREATOR:
                return caller.grants.owns_some
            case Role.GROUP_OWNER:
                return target.group is not None and caller.grants.owns_group(target.group)
            case Role.TOPIC_OWNER:
                return await self._owns_topic(caller, target)
            case Role.SUBSCRIPTION_OWNER:
                return await self._owns_subscription(caller, target)
            case Role.READER:
                return caller.grants.read or await self._owns(caller, target)
            case Role.ADMIN:
                return False
            case _:
                assert_never(role)

    async def _owns(self, caller: Caller, target: Target) -> bool:
        """Whether the caller owns the target's subscription, or the topic if none is given."""
        if target.subscription is not None:
            return await self._owns_subscription(caller, target)
        return await self._owns_topic(caller, target)

    async def _owns_topic(self, caller: Caller, target: Target) -> bool:
        name = target.topic
        if name is None:
            return False
        if name in caller.grants.topics or group_of(name) in caller.grants.groups:
            return True
        if not caller.grants.owners:
            return False
        async with self._database.transaction() as session:
            return await OwnerRepository(session).of_topic(name) in caller.grants.owners

    async def _owns_subscription(self, caller: Caller, target: Target) -> bool:
        topic, name = target.topic, target.subscription
        if topic is None or name is None:
            return False
        if f"{topic}/{name}" in caller.grants.subscriptions:
            return True
        if await self._owns_topic(caller, target):
            return True
        if not caller.grants.owners:
            return False
        async with self._database.transaction() as session:
            owner = await OwnerRepository(session).of_subscription(topic, name)
        return owner in caller.grants.owners

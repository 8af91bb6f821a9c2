"""API keys and their scopes. A scope says what a caller with the key may do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from app.domain.errors import ValidationFailedError
from app.domain.names import group_of, is_group_name, subscription_name, topic_name
from app.domain.owner import Owner
from app.domain.secrets import SECRET

KEY_NAME_LENGTH_MAX: Final = 100
SCOPES_MAX: Final = 100
OWNER_TEXT_MAX: Final = 256
SCOPE_RULE: Final = (
    "must be admin, read, owner:id, owner:source/id, group:name, topic:group.name,"
    " subscription:group.topic/name, or publish:group.name (also publish:group.* and publish:*)"
)

# Each token begins with this text. Then follow two parts: the id of the key, with which the key is
# found in the database, and 256 random bits in base64, which prove that the token is genuine.
TOKEN_PREFIX: Final = "ang_"  # noqa: S105 - the start of every token, no secret
ID_LENGTH: Final = 12
_TOKEN: Final = re.compile(rb"ang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")

_NAME: Final = re.compile(r"[ -~]{1,100}")
_SOURCE_OF_OWNERS: Final = Owner().source
_ALL: Final = "*"


class ScopeKind(StrEnum):
    """The kind of a scope. It says what a key with the scope may do."""

    ADMIN = "admin"
    READ = "read"
    OWNER = "owner"
    GROUP = "group"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    PUBLISH = "publish"


_KINDS: Final = frozenset(kind.value for kind in ScopeKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One permission of an API key. As text, it is `kind` or `kind:target`."""

    kind: ScopeKind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind.value

    @classmethod
    def parse(cls, text: str, *, path: str = "scopes") -> "Scope":
        """Parse the text of a scope.

        Raises:
            ValidationFailedError: The text is not a scope (field `path`).
        """
        word, colon, target = text.partition(":")
        if word not in _KINDS or bool(colon) == (word in {ScopeKind.ADMIN, ScopeKind.READ}):
            raise ValidationFailedError.of(path, SCOPE_RULE)
        kind = ScopeKind(word)
        return cls(kind=kind, target=_target(kind, target, path) if colon else "")


def _target(kind: ScopeKind, text: str, path: str) -> str:
    match kind:
        case ScopeKind.OWNER if owner := _owner_in(text):
            return f"{owner.source}/{owner.id}"
        case ScopeKind.GROUP if is_group_name(text):
            return text
        case ScopeKind.TOPIC:
            return topic_name(text, path=path)
        case ScopeKind.SUBSCRIPTION if "/" in text:
            topic, _, name = text.partition("/")
            return f"{topic_name(topic, path=path)}/{subscription_name(name, path=path)}"
        case ScopeKind.PUBLISH if text == _ALL or is_group_name(_group_in(text)):
            return text
        case ScopeKind.PUBLISH if _ALL not in text:
            return topic_name(text, path=path)
        case _:
            raise ValidationFailedError.of(path, SCOPE_RULE)


def _group_in(text: str) -> str:
    """Return the group in a target `group.*`, which means all topics of the group.

    The result is empty for any other target.
    """
    group, _, topic = text.rpartition(".")
    return group if topic == _ALL else ""


def _owner_in(text: str) -> Owner | None:
    """Parse the owner in a scope; None if the text is not valid.

    The text is `id` or `source/id`.
    """
    source, slash, below = text.partition("/")
    owner = Owner(source=source, id=below) if slash else Owner(id=text)
    lengths = (len(owner.source), len(owner.id))
    fits = text.isprintable() and all(1 <= length <= OWNER_TEXT_MAX for length in lengths)
    return owner if fits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """All permissions that several scopes give together, in a form that is fast to check."""

    admin: bool = False
    read: bool = False
    owners: frozenset[Owner] = frozenset()
    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    subscriptions: frozenset[str] = frozenset()
    publishes: frozenset[str] = frozenset()
    publish_prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, scopes: Iterable[Scope]) -> "Grants":
        """Return the permissions that all of `scopes` give together."""
        by_kind: dict[ScopeKind, set[str]] = {kind: set() for kind in ScopeKind}
        for scope in scopes:
            by_kind[scope.kind].add(scope.target)
        publish = by_kind[ScopeKind.PUBLISH]
        owners = (each.partition("/") for each in by_kind[ScopeKind.OWNER])
        return cls(
            admin=bool(by_kind[ScopeKind.ADMIN]),
            read=bool(by_kind[ScopeKind.READ]),
            owners=frozenset(Owner(source=source, id=below) for source, _, below in owners),
            groups=frozenset(by_kind[ScopeKind.GROUP]),
            topics=frozenset(by_kind[ScopeKind.TOPIC]),
            subscriptions=frozenset(by_kind[ScopeKind.SUBSCRIPTION]),
            publishes=frozenset(each for each in publish if not each.endswith(_ALL)),
            publish_prefixes=tuple(
                sorted(each.removesuffix(_ALL) for each in publish if each.endswith(_ALL))
            ),
        )

    @property
    def owns_some(self) -> bool:
        """Whether these permissions give all rights on at least one thing.

        Permissions that only allow reading or publishing do not count.
        """
        owning = (self.owners, self.groups, self.topics, self.subscriptions)
        return self.admin or any(owning)

    def owns_group(self, name: str) -> bool:
        """Return whether these permissions give all rights on the group with the name `name`."""
        return self.admin or name in self.groups

    def owns_topic(self, name: str, owner: Owner) -> bool:
        """Return whether these permissions give all rights on the topic `name` of `owner`."""
        return name in self.topics or owner in self.owners or self.owns_group(group_of(name))

    def owns_subscription(self, topic: str, name: str, owner: Owner) -> bool:
        """Return whether these permissions give all rights on the subscription `name` of `owner`.

        It does not matter who owns the topic.
        """
        return self.admin or owner in self.owners or f"{topic}/{name}" in self.subscriptions

    def publishes_to(self, topic: str) -> bool:
        """Return whether these permissions allow publishing to the topic."""
        return self.admin or topic in self.publishes or topic.startswith(self.publish_prefixes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request. `name` is the name of the caller's API key, or `anonymous`.

    `key_id` is None for a caller without a key.
    """

    name: str
    key_id: str | None = None
    grants: Grants = field(default_factory=Grants)


# The caller of each request if access is not controlled. This caller may do everything.
EVERYBODY: Final = Caller(name="anonymous", grants=Grants(admin=True, read=True))
# The caller of a request without an API key if access is controlled.
NOBODY: Final = Caller(name="anonymous")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key: its permissions and its times. Of its token, only a digest is stored."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    digest: bytes = field(repr=False, metadata=SECRET)
    created_by: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name != self.name.strip():
            raise ValidationFailedError.of(
                "name", f"must be 1 to {KEY_NAME_LENGTH_MAX} printable ASCII characters"
            )
        if not 1 <= len(self.scopes) <= SCOPES_MAX:
            raise ValidationFailedError.of("scopes", f"must be 1 to {SCOPES_MAX}")

    def is_live(self, now: datetime) -> bool:
        """Return whether the key is valid at the time `now`."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def caller(self) -> Caller:
        """The caller of a request with this key."""
        return Caller(name=self.name, key_id=self.id, grants=Grants.of(self.scopes))


def is_token(given: bytes) -> bool:
    """Return whether `given` has the form of an API key's token."""
    return _TOKEN.fullmatch(given) is not None


class Mode(StrEnum):
    """Who may make management changes now, with Hermes' names. Publishing is always allowed.

    With READ_ONLY and with READ_ONLY_ADMIN, only admins may make changes. These two modes differ
    only in their names.
    """

    READ_WRITE = "readWrite"
    READ_ONLY = "readOnly"
    READ_ONLY_ADMIN = "readOnlyAdmin"


class Role(StrEnum):
    """The role that a caller needs to call a route. Some of the roles are also in Hermes.

    OPEN: everybody may call the route. ANY: callers with any key. READER: an owner of the resource,
    or a key that may read everything. CREATOR: a key with all rights on at least one thing; the
    body of the request decides whether the caller may create the resource. GROUP_OWNER,
    TOPIC_OWNER, SUBSCRIPTION_OWNER: a key with all rights on the resource in the path.
    """

    OPEN = "open"
    ANY = "any"
    READER = "reader"
    CREATOR = "creator"
    GROUP_OWNER = "groupOwner"
    TOPIC_OWNER = "topicOwner"
    SUBSCRIPTION_OWNER = "subscriptionOwner"
    ADMIN = "admin"

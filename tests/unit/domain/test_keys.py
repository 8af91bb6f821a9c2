from datetime import UTC, datetime, timedelta

import pytest

from app.domain.access.keys import ApiKey, Caller, Grants, Scope, is_token
from app.domain.catalogue.topic import PublishAuth, Topic
from app.domain.errors import KeyMissingError, PublishingDeniedError, ValidationFailedError
from app.domain.owner import Owner
from app.services.access.authorization import Gate
from app.services.access.known_keys import KnownKeys
from tests.fakes.access import nothing

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = Owner(id="Shop")


def grants(*scopes: str) -> Grants:
    return Grants.of(Scope.parse(each) for each in scopes)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("admin", "admin"),
        ("read", "read"),
        ("owner:Shop", "owner:Plaintext/Shop"),
        ("owner:Teams/a/b", "owner:Teams/a/b"),
        ("group:shop.eu", "group:shop.eu"),
        ("topic:shop.orders", "topic:shop.orders"),
        ("subscription:shop.orders/billing", "subscription:shop.orders/billing"),
        ("publish:shop.orders", "publish:shop.orders"),
        ("publish:shop.*", "publish:shop.*"),
        ("publish:*", "publish:*"),
    ],
)
def test_a_scope_is_read_and_written(text: str, canonical: str) -> None:
    scope = Scope.parse(text)
    assert str(scope) == canonical
    assert Scope.parse(canonical) == scope


@pytest.mark.parametrize(
    "text",
    [
        "", "all", "ADMIN", "admin:", "admin:x", "read:x", "owner", "owner:", "owner:/x",
        "owner:x/",
        "owner:" + "x" * 257, "owner:a\0", "group", "group:", "group:a/b", "topic:orders", "topic:",
        "subscription:shop.orders", "subscription:shop.orders/", "subscription:orders/x",
        "subscription:shop.orders/a/b", "publish:", "publish:sh*op", "publish:a b", "publish:**",
        "publish:shop*", "publish:.*",
    ],
)  # fmt: skip
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        Scope.parse(text, path="scopes.0")
    assert [problem.path for problem in refused.value.details] == ["scopes.0"]


def test_scopes_allow_what_they_name_and_nothing_beside() -> None:
    some = grants("owner:Shop", "group:eu.shop", "topic:a.b", "subscription:c.d/s", "publish:p.*")
    assert some.owns_group("eu.shop")
    assert not some.owns_group("eu")
    assert some.owns_topic("eu.shop.orders", Owner())
    assert not some.owns_topic("eu.shops.orders", Owner())
    assert some.owns_topic("x.y", SHOP)
    assert not some.owns_topic("x.y", Owner(source="Other", id="Shop"))
    assert some.owns_topic("a.b", Owner())
    assert some.owns_subscription("c.d", "s", Owner())
    assert not some.owns_subscription("c.d", "t", Owner())
    assert some.owns_subscription("c.d", "t", SHOP)
    assert some.publishes_to("p.q")
    assert not some.publishes_to("pp.q")
    assert not grants("publish:p.q").publishes_to("p.qq")
    assert not some.admin
    assert not some.read


def test_who_only_reads_or_publishes_owns_nothing() -> None:
    assert not grants("read", "publish:*").owns_some
    assert grants("owner:Shop").owns_some


@pytest.mark.parametrize(
    ("auth", "scope", "name", "allowed"),
    [
        (PublishAuth(), "publish:a.*", "x", True),
        (PublishAuth(), "owner:Shop", "x", True),
        (PublishAuth(), "read", "x", False),
        (PublishAuth(enabled=True, publishers=("x",)), "read", "x", True),
        (PublishAuth(enabled=True, publishers=("x",)), "publish:*", "y", False),
        (PublishAuth(enabled=True, publishers=("x",)), "owner:Shop", "y", False),
        (PublishAuth(enabled=True), "admin", "y", True),
    ],
)
def test_a_topic_takes_messages_of_those_who_may_publish(
    auth: PublishAuth, scope: str, name: str, *, allowed: bool
) -> None:
    topic = Topic(name="a.b", owner=SHOP, auth=auth)
    caller = Caller(name=name, key_id="0" * 12, grants=grants(scope))
    gate = Gate(KnownKeys(nothing), controlled=True)
    if allowed:
        gate.require(caller, topic)
    else:
        with pytest.raises(PublishingDeniedError):
            gate.require(caller, topic)


@pytest.mark.parametrize("controlled", [True, False])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("unauthenticated", [True, False])
async def test_nobody_publishes_where_the_topic_lets_them_or_access_is_not_controlled(
    *, controlled: bool, enabled: bool, unauthenticated: bool
) -> None:
    auth = PublishAuth(enabled=enabled, unauthenticated_access=unauthenticated)
    gate = Gate(KnownKeys(nothing), controlled=controlled)
    caller = await gate.caller(None)
    # Without access control nobody has a name that such a topic could ask for.
    if (enabled and unauthenticated) or (not enabled and not controlled):
        gate.require(caller, Topic(name="a.b", auth=auth))
    else:
        with pytest.raises(KeyMissingError if controlled else PublishingDeniedError):
            gate.require(caller, Topic(name="a.b", auth=auth))


def test_a_key_is_live_until_it_expires_or_is_revoked() -> None:
    def key(**times: datetime) -> ApiKey:
        scopes = (Scope.parse("read"),)
        return ApiKey(id="0" * 12, name="x", scopes=scopes, digest=b"secret", **times)  # type: ignore[arg-type]  # times alone

    assert key().is_live(NOW)
    assert key(expires_at=NOW + timedelta(seconds=1)).is_live(NOW)
    assert not key(expires_at=NOW).is_live(NOW)
    assert not key(revoked_at=NOW).is_live(NOW)
    assert "secret" not in repr(key())


def test_a_token_has_its_form() -> None:
    assert is_token(b"ang_0123456789ab_" + b"x" * 43)
    for given in (b"", b"ang_0123456789ab_" + b"x" * 42, b"ang_0123456789AB_" + b"x" * 43):
        assert not is_token(given)

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.catalogue.signing_secrets import (
    OVERLAP_MAX,
    SIGNING_SECRETS_MAX,
    SigningKind,
    SigningSecret,
    require_signing_secrets,
    rotated,
    signing_at,
    without,
)
from app.domain.errors import ValidationFailedError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def a_secret(secret_id: str, *, kind: SigningKind = SigningKind.V1) -> SigningSecret:
    return SigningSecret(id=secret_id, kind=kind, key=f"key of {secret_id}", created_at=NOON)


def test_the_older_ones_of_its_kind_expire_after_the_overlap() -> None:
    secrets = (a_secret("b"), a_secret("a"), a_secret("e", kind=SigningKind.V1A))
    newest, second, third, other = rotated(secrets, a_secret("c"), overlap=DAY)
    assert (newest.id, newest.expires_at) == ("c", None)
    assert {second.expires_at, third.expires_at} == {NOON + DAY}
    assert (other.id, other.expires_at) == ("e", None)


def test_an_overlap_lengthens_no_life() -> None:
    ending = replace(a_secret("a"), expires_at=NOON + DAY)
    _, old = rotated((ending,), a_secret("b"), overlap=2 * DAY)
    assert old.expires_at == NOON + DAY


def test_what_has_expired_and_what_has_no_overlap_is_dropped() -> None:
    gone = replace(a_secret("a"), expires_at=NOON)
    assert [each.id for each in rotated((gone,), a_secret("c"), overlap=DAY)] == ["c"]
    alive = a_secret("b")
    assert [each.id for each in rotated((alive,), a_secret("c"), overlap=timedelta())] == ["c"]


def test_a_change_that_is_taken_back_leaves_deliveries_signed() -> None:
    other = a_secret("e", kind=SigningKind.V1A)
    secrets = rotated((a_secret("b"), a_secret("a"), other), a_secret("c"), overlap=DAY)
    newest, oldest, kept = without(secrets, "c")
    assert (newest.id, newest.expires_at) == ("b", None)
    assert (oldest.id, oldest.expires_at) == ("a", NOON + DAY)
    assert kept == other
    # Who takes away one that ends anyway changes no other.
    assert without(secrets, "b") == tuple(each for each in secrets if each.id != "b")
    assert without((other,), "e") == ()


def test_a_secret_signs_until_the_moment_it_expires() -> None:
    ending = replace(a_secret("a"), expires_at=NOON)
    assert signing_at((ending,), NOON - timedelta(microseconds=1)) == (ending,)
    assert signing_at((ending,), NOON) == ()


@pytest.mark.parametrize("overlap", [-timedelta(seconds=1), OVERLAP_MAX + timedelta(seconds=1)])
def test_an_overlap_out_of_range_is_refused_with_the_range(overlap: timedelta) -> None:
    with pytest.raises(ValidationFailedError, match="overlap must be 0 to 2592000"):
        rotated((), a_secret("a"), overlap=overlap)


def test_there_is_a_limit_to_the_secrets_of_a_subscription() -> None:
    secrets = tuple(a_secret(str(number)) for number in range(SIGNING_SECRETS_MAX))
    require_signing_secrets(secrets)
    with pytest.raises(ValidationFailedError, match="at most 8"):
        require_signing_secrets((*secrets, a_secret("one more")))


def test_a_secret_is_not_in_its_description() -> None:
    assert "key of" not in repr(a_secret("a"))

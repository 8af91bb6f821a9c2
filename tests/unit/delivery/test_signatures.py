import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.domain.catalogue.signing_secrets import SigningKind, SigningSecret
from app.domain.catalogue.subscription import Subscription
from app.signing import new_signing_key
from workers.delivery.signatures import Signer, webhook_id_of

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [new_signing_key(SigningKind.V1) for _ in range(3)]
PUBLIC = new_signing_key(SigningKind.V1A)
BODY = '{"a":"ü"}'.encode()


def a_secret(number: int, *, expires_at: datetime | None = None) -> SigningSecret:
    return SigningSecret(
        id=str(number),
        kind=SigningKind.V1,
        key=KEYS[number].text,
        created_at=CREATED,
        expires_at=expires_at,
    )


def a_signer(*secrets: SigningSecret, locked: str = "") -> Signer | None:
    return Signer.of(
        Subscription(
            id="s-1",
            topic="g.t",
            name="s",
            endpoint="http://h:1/",
            signing_secrets=secrets,
            locked=locked,
        )
    )


def signed(
    signer: Signer | None, message_id: bytes = b"m-1", *, now: datetime | None = None
) -> dict[str, str]:
    """Headers as of `now`, by default the moment of the test: receivers take five minutes off."""
    assert signer is not None
    pairs = signer.headers(message_id, BODY, now or datetime.now(UTC))
    return {name.decode("ascii"): value.decode("ascii") for name, value in pairs}


def verifies(number: int, headers: dict[str, str]) -> bool:
    try:
        Webhook(KEYS[number].text).verify(BODY, headers)
    except WebhookVerificationError:
        return False
    return True


def test_nothing_is_signed_without_a_secret_or_without_knowing_it() -> None:
    assert a_signer() is None
    assert a_signer(a_secret(0), locked="its key is unknown") is None


def test_a_receiver_verifies_what_is_signed() -> None:
    now = datetime.now(UTC)
    headers = signed(a_signer(a_secret(0)), now=now)
    assert verifies(0, headers)
    assert not verifies(1, headers)
    assert headers["webhook-id"] == "m-1"
    assert headers["webhook-timestamp"] == str(int(now.timestamp()))


def test_each_attempt_is_signed_anew_under_the_same_id() -> None:
    signer, now = a_signer(a_secret(0)), datetime.now(UTC)
    first, later = signed(signer, now=now), signed(signer, now=now + timedelta(seconds=90))
    assert first["webhook-id"] == later["webhook-id"]
    assert first["webhook-signature"] != later["webhook-signature"]
    assert verifies(0, later)


def test_every_secret_signs_until_it_expires() -> None:
    at_once = datetime.now(UTC)
    soon, later = at_once + timedelta(seconds=10), at_once + timedelta(seconds=20)
    signer = a_signer(a_secret(0), a_secret(1, expires_at=later), a_secret(2, expires_at=soon))
    for now, expected in [
        (at_once, [True, True, True]),
        (soon, [True, True, False]),
        (later, [True, False, False]),
    ]:
        headers = signed(signer, now=now)
        assert [verifies(number, headers) for number in range(3)] == expected
        assert headers["webhook-signature"].count(" ") == sum(expected) - 1


def test_nothing_is_signed_once_every_secret_has_expired() -> None:
    now = datetime.now(UTC)
    assert signed(a_signer(a_secret(0, expires_at=now)), now=now) == {}


def test_both_kinds_of_signatures_are_sent_side_by_side() -> None:
    public = SigningSecret(id="p", kind=SigningKind.V1A, key=PUBLIC.text, created_at=CREATED)
    headers = signed(a_signer(public, a_secret(0)))
    versions = [each.partition(",")[0] for each in headers["webhook-signature"].split(" ")]
    assert versions == ["v1a", "v1"]
    assert verifies(0, headers)


@pytest.mark.parametrize(
    ("message_id", "seen"),
    [
        (b"0b6cf7a4-5c0f-4a51-9d0e-1c7c9b7a8e26", b"0b6cf7a4-5c0f-4a51-9d0e-1c7c9b7a8e26"),
        (b"shop.orders/3/42", b"shop%2Eorders/3/42"),
        (b"a%2Eb", b"a%252Eb"),
        (b" a b ", b"%20a%20b%20"),
        (b"a\r\nx: y", b"a%0D%0Ax:%20y"),
        ("ü".encode(), b"%C3%BC"),
        (b"\xff", b"%FF"),
    ],
)
def test_an_id_has_nothing_that_separates_or_does_not_arrive(
    message_id: bytes, seen: bytes
) -> None:
    assert webhook_id_of(message_id) == seen
    assert verifies(0, signed(a_signer(a_secret(0)), message_id))


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_no_two_ids_become_one(first: bytes, second: bytes) -> None:
    assert (webhook_id_of(first) == webhook_id_of(second)) == (first == second)


def test_what_is_signed_is_what_the_specification_says() -> None:
    now = datetime.now(UTC)
    headers = signed(a_signer(a_secret(0)), now=now)
    _, _, encoded = headers["webhook-signature"].partition(",")
    expected = Webhook(KEYS[0].text).sign("m-1", now, BODY.decode())
    assert base64.b64decode(encoded) == base64.b64decode(expected.partition(",")[2])

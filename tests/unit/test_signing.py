import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook

from app.domain.catalogue.signing_secrets import SigningKind
from app.domain.errors import ValidationFailedError
from app.signing import new_signing_key, signing_key

# The example of the Standard Webhooks specification, and of the libraries that it links to.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SEED = bytes(range(32))


def in_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def public_of(seed: bytes) -> bytes:
    public = signing_key(SigningKind.V1A, f"whsk_{in_base64(seed)}").public or ""
    return base64.b64decode(public.removeprefix("whpk_"))


def test_signs_as_the_example_of_the_specification() -> None:
    key = signing_key(SigningKind.V1, SECRET)
    start = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330."
    signed = key.signature(start, b'{"test": 2432232314}')
    assert signed == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_verifies_every_signature_of_one_key() -> None:
    key = new_signing_key(SigningKind.V1)
    for body in (b"", b"{}", b"x" * 100_000):
        signed = key.signature(b"m-1.1700000000.", body).decode("ascii")
        expected = Webhook(key.text).sign("m-1", _at(1_700_000_000), body.decode("ascii"))
        assert signed == expected


def test_an_asymmetric_signature_is_checked_with_the_public_key_alone() -> None:
    key = new_signing_key(SigningKind.V1A)
    version, _, encoded = key.signature(b"m-1.1700000000.", b"{}").partition(b",")
    public = base64.b64decode((key.public or "").removeprefix("whpk_"))
    assert version == b"v1a"
    checked = Ed25519PublicKey.from_public_bytes(public)
    checked.verify(base64.b64decode(encoded), b"m-1.1700000000.{}")


def test_new_keys_are_as_they_are_given_and_never_the_same() -> None:
    for kind, prefix, size in ((SigningKind.V1, "whsec_", 32), (SigningKind.V1A, "whsk_", 64)):
        key = new_signing_key(kind)
        assert key.text.startswith(prefix)
        assert len(base64.b64decode(key.text.removeprefix(prefix))) == size
        assert signing_key(kind, key.text).text == key.text
        assert new_signing_key(kind).text != key.text


def test_a_seed_and_a_seed_with_its_public_key_are_the_same_key() -> None:
    short = signing_key(SigningKind.V1A, f"whsk_{in_base64(SEED)}")
    long = signing_key(SigningKind.V1A, f"whsk_{in_base64(SEED + public_of(SEED))}")
    assert (short.text, short.public) == (long.text, long.public)


@pytest.mark.parametrize("size", [24, 64])
def test_a_secret_has_24_to_64_bytes(size: int) -> None:
    text = f"whsec_{in_base64(bytes(size))}"
    assert signing_key(SigningKind.V1, text).text == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SigningKind.V1, ""),
        (SigningKind.V1, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        (SigningKind.V1, "whsec_"),
        (SigningKind.V1, f"whsec_{in_base64(bytes(23))}"),
        (SigningKind.V1, f"whsec_{in_base64(bytes(65))}"),
        (SigningKind.V1, f"{SECRET}!"),
        (SigningKind.V1, f"{SECRET}ü"),
        (SigningKind.V1, f"whsk_{in_base64(SEED)}"),
        (SigningKind.V1A, SECRET),
        (SigningKind.V1A, f"whsk_{in_base64(SEED[1:])}"),
        (SigningKind.V1A, f"whsk_{in_base64(SEED + SEED)}"),
        (SigningKind.V1A, f"whsk_{in_base64(SEED + SEED[1:])}"),
        (SigningKind.V1A, f"whpk_{in_base64(SEED)}"),
    ],
)
def test_what_is_no_key_of_its_kind_is_refused_without_being_quoted(
    kind: SigningKind, text: str
) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        signing_key(kind, text)
    (problem,) = refused.value.details
    assert problem.path == "secret"
    given = text.rpartition("_")[2]
    assert given == "" or given not in f"{refused.value!r}{refused.value.__cause__!r}"


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

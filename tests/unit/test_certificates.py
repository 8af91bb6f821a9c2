from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.api.management.catalogue.subscription_bodies import (
    changed_subscription,
    new_subscription,
)
from app.api.management.catalogue.subscription_read import subscription_read
from app.certificates import certificate_chain, client_certificate, private_key
from app.domain.catalogue.client_certificate import ClientCertificate
from app.domain.catalogue.subscription import State, Subscription
from app.domain.errors import ValidationFailedError
from app.domain.secrets import MASK

NOW = datetime.now(UTC)
AUTHORITY = trustme.CA()


class Issued:
    """A certificate of the tests' authority, and its key."""

    def __init__(self, days: float = 365) -> None:
        until = NOW + timedelta(days=days)
        issued = AUTHORITY.issue_cert(common_name="joe", not_after=until)
        self.chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
        self.key = issued.private_key_pem.bytes().decode()


JOE, ANN = Issued(), Issued()


def problem_of(failed: "pytest.ExceptionInfo[ValidationFailedError]") -> tuple[str, str]:
    (problem,) = failed.value.details
    return problem.path, problem.message


def test_a_certificate_and_its_key_say_who_and_until_when() -> None:
    found = client_certificate(JOE.chain, JOE.key, now=NOW)
    assert found.subject.startswith("CN=joe")
    assert abs(found.not_after - NOW - timedelta(days=365)) < timedelta(seconds=2)
    assert found.warning(NOW) is None
    assert JOE.key not in repr(found)


def test_what_else_is_in_the_text_is_not_kept() -> None:
    """It is shown: a key that was put beside the certificate must not be."""
    assert certificate_chain(f"joe's\n{JOE.key}\n{JOE.chain}") == JOE.chain


def test_a_key_of_another_certificate_is_refused() -> None:
    with pytest.raises(ValidationFailedError) as failed:
        client_certificate(JOE.chain, ANN.key, now=NOW)
    assert problem_of(failed) == (
        "clientCertificate.privateKey",
        "must be the key of the certificate",
    )


def test_a_certificate_that_has_expired_is_refused() -> None:
    old = Issued(days=-1)
    with pytest.raises(ValidationFailedError) as failed:
        client_certificate(old.chain, old.key, now=NOW)
    path, message = problem_of(failed)
    assert path == "clientCertificate.certificate"
    assert "has expired on" in message


def pem(key: "rsa.RSAPrivateKey | dsa.DSAPrivateKey | ec.EllipticCurvePrivateKey") -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (MASK, "is masked, as answers show it: give the real one"),
        ("x", "must be an RSA, EC or Ed25519 private key in PEM form"),
        (JOE.chain, "must be an RSA, EC or Ed25519 private key in PEM form"),
        (
            load_pem_private_key(JOE.key.encode(), None)
            .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hush"))
            .decode(),
            "must be without a password",
        ),
        (
            pem(rsa.generate_private_key(65537, 1024)),  # noqa: S505 - what is refused
            "must have 2048 bits or more",
        ),
        (
            pem(dsa.generate_private_key(1024)),  # noqa: S505 - of no use at any size
            "must be an RSA, EC or Ed25519 private key in PEM form",
        ),
    ],
    ids=["masked", "no key", "a certificate", "with a password", "short", "of no use"],
)
def test_what_is_no_key_is_refused_without_a_word_of_it(key: str, message: str) -> None:
    with pytest.raises(ValidationFailedError) as failed:
        private_key(key)
    assert problem_of(failed) == ("clientCertificate.privateKey", message)


def test_keys_of_all_useful_kinds_are_taken() -> None:
    edwards = ed25519.Ed25519PrivateKey.generate()
    raw = edwards.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for key in (raw, pem(ec.generate_private_key(ec.SECP256R1())), JOE.key):
        assert private_key(key) == key


@pytest.mark.parametrize(
    ("days", "warning"),
    [(-1, "has expired"), (0, "has expired"), (29.5, "expires in 29 days"), (31, None)],
)
def test_the_owner_is_warned_in_time(days: float, warning: str | None) -> None:
    shown = ClientCertificate(
        chain="", private_key="", subject="", not_after=NOW + timedelta(days=days)
    )
    assert shown.warning(NOW) == warning


def subscription(certificate: ClientCertificate | None = None) -> Subscription:
    return Subscription(
        id="s", topic="a.b", name="s", endpoint="https://h.test/", client_certificate=certificate
    )


def test_a_certificate_that_has_expired_since_hinders_no_other_change() -> None:
    old = Issued(days=-1)
    kept = ClientCertificate(
        chain=old.chain, private_key=old.key, subject="CN=joe", not_after=NOW - timedelta(days=1)
    )
    before = subscription(kept)
    changed = changed_subscription(before, {"description": "new"}, strict=True)
    assert changed.client_certificate == kept
    read = subscription_read(before, State.ACTIVE).answered()
    assert read["clientCertificate"]["warning"] == "has expired"
    # Also when all that was read is sent back.
    back = {"clientCertificate": read["clientCertificate"]}
    assert changed_subscription(before, back, strict=True).client_certificate == kept


def test_a_certificate_needs_an_endpoint_that_can_ask_for_it() -> None:
    body = {
        "name": "s",
        "endpoint": "http://h.test/",
        "clientCertificate": {"certificate": JOE.chain, "privateKey": JOE.key},
    }
    with pytest.raises(ValidationFailedError) as failed:
        new_subscription("a.b", body, strict=True)
    assert problem_of(failed) == ("clientCertificate", "needs an https:// endpoint")

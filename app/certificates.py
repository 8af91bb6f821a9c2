"""Certificates and keys in PEM: parsed and checked when they are set."""

from datetime import datetime
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import Certificate, load_pem_x509_certificates

from app.domain.catalogue.client_certificate import PEM_LENGTH_MAX, ClientCertificate
from app.domain.errors import ValidationFailedError
from app.domain.secrets import MASK, MASKED

CHAIN_MAX: Final = 10
# The minimum length of RSA keys, which OpenSSL's security level requires.
RSA_BITS_MIN: Final = 2048

_PATH: Final = "clientCertificate"
_CHAIN: Final = f"{_PATH}.certificate"
_KEY: Final = f"{_PATH}.privateKey"


def certificate_chain(text: str) -> str:
    """Return the certificates in `text`, without everything else.

    Raises:
        ValidationFailedError: There is no certificate, or one is not valid.
    """
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in _certificates(text))
    return chain.decode("ascii")


def private_key(text: str) -> str:
    """Return `text`, if it is a private key for a client certificate.

    Raises:
        ValidationFailedError: The text is not a private key for a client certificate.
    """
    if text == MASK:
        raise ValidationFailedError.of(_KEY, MASKED)
    key = _private_key(text)
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < RSA_BITS_MIN:
        raise ValidationFailedError.of(_KEY, f"must have {RSA_BITS_MIN} bits or more")
    return text


def client_certificate(chain: str, key: str, *, now: datetime) -> ClientCertificate:
    """Return the certificate with its key.

    Raises:
        ValidationFailedError: Certificate and key do not match, or the certificate has expired.
    """
    own = _certificates(chain)[0]
    if _private_key(key).public_key() != own.public_key():
        raise ValidationFailedError.of(_KEY, "must be the key of the certificate")
    until = own.not_valid_after_utc
    if until <= now:
        raise ValidationFailedError.of(_CHAIN, f"must be valid: it has expired on {until:%Y-%m-%d}")
    return ClientCertificate(
        chain=certificate_chain(chain),
        private_key=key,
        subject=own.subject.rfc4514_string(),
        not_after=until,
    )


def key_as_pkcs8(pem: bytes) -> str:
    """Return a private key without a password, in the form for Kafka's Java client."""
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _certificates(text: str) -> list[Certificate]:
    try:
        found = load_pem_x509_certificates(_ascii(text, _CHAIN))
    except ValueError:
        found = []
    if not 1 <= len(found) <= CHAIN_MAX:
        message = f"must be 1 to {CHAIN_MAX} certificates in PEM form, its own first"
        raise ValidationFailedError.of(_CHAIN, message)
    return found


def _private_key(
    text: str,
) -> (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
):
    try:
        key: object = load_pem_private_key(_ascii(text, _KEY), password=None)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    except TypeError:
        raise ValidationFailedError.of(_KEY, "must be without a password") from None
    match key:
        case (
            rsa.RSAPrivateKey()
            | ec.EllipticCurvePrivateKey()
            | ed25519.Ed25519PrivateKey()
            | ed448.Ed448PrivateKey()
        ):
            return key
        case _:
            message = "must be an RSA, EC or Ed25519 private key in PEM form"
            raise ValidationFailedError.of(_KEY, message)


def _ascii(text: str, path: str) -> bytes:
    if len(text) > PEM_LENGTH_MAX:
        raise ValidationFailedError.of(path, f"must be at most {PEM_LENGTH_MAX} characters")
    return text.encode("utf-8")

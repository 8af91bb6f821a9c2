"""Why a broker refuses this client, in words that name the setting to change (pure)."""

import ssl
from collections.abc import Collection
from typing import Final

from app.domain.kafka_security import KafkaSecurity

PROTOCOL: Final = "ANGELIA_KAFKA_SECURITY_PROTOCOL"
_MECHANISM: Final = "ANGELIA_KAFKA_SASL_MECHANISM"
_USER: Final = "ANGELIA_KAFKA_SASL_USERNAME and ANGELIA_KAFKA_SASL_PASSWORD"
_OURS: Final = "ANGELIA_KAFKA_CERTIFICATE_FILE and ANGELIA_KAFKA_KEY_FILE"
_AUTHORITY: Final = "ANGELIA_KAFKA_CA_FILE"
_ENDPOINT: Final = "ANGELIA_KAFKA_OAUTH_TOKEN_URL"
_SCOPE: Final = "ANGELIA_KAFKA_OAUTH_SCOPE"
_CLIENT: Final = "ANGELIA_KAFKA_OAUTH_CLIENT_ID and ANGELIA_KAFKA_OAUTH_CLIENT_SECRET"
_ENDPOINT_AUTHORITY: Final = "ANGELIA_KAFKA_OAUTH_CA_FILE"
_REGION: Final = "ANGELIA_KAFKA_OAUTH_AWS_REGION"
# The error codes of a token endpoint that does not accept a client.
_UNKNOWN_CLIENT: Final = frozenset({"access_denied", "invalid_client", "unauthorized_client"})

NO_SASL_HERE: Final = 34
_OTHER_MECHANISMS: Final = 33
_NOT_AUTHENTICATED: Final = 58
_SERVER_ERROR: Final = 500

# OpenSSL's X509_V_ERR_… code for a certificate that is not valid yet.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NAMES: Final = frozenset({62, 64})
# The TLS alerts with which brokers refuse the client certificate, or report that it is missing.
_OF_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "UNSUPPORTED_CERTIFICATE",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "HANDSHAKE_FAILURE",
    "ACCESS_DENIED",
)


class RefusedError(Exception):
    """The broker and this client cannot connect until somebody changes a setting."""


def of_tls(error: ssl.SSLError, security: KafkaSecurity) -> str:
    """Return the reason for a TLS error, as text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _of_their_certificate(error)
    reason = error.reason or ""
    if "ALERT" in reason and reason.endswith(_OF_OUR_CERTIFICATE):
        if security.certificate_file is None:
            return f"wants a certificate of ours: set {_OURS}"
        return f"does not take our certificate ({_words(reason)}): check {_OURS}"
    return f"fails in TLS ({_words(reason) or error})"


def unfit_files(error: ssl.SSLError) -> str:
    """Return what is wrong with the client certificate's files, as text."""
    words = _words(error.reason or "") or str(error)
    return f"cannot be shown our certificate ({words}): {_OURS} do not fit each other"


def of_handshake(code: int, mechanisms: Collection[str], security: KafkaSecurity) -> str:
    """Return the reason for an error code of the SASL handshake, as text."""
    if code == NO_SASL_HERE:
        without = "SSL" if security.by_tls else "PLAINTEXT"
        return f"has no SASL: set {PROTOCOL} to {without}"
    if code == _OTHER_MECHANISMS:
        offered = ", ".join(mechanisms) or "no mechanism"
        return f"takes {offered}, and not {security.mechanism}: set {_MECHANISM}"
    return f"refuses SASL with error {code}"


def of_authentication(code: int, message: str | None, security: KafkaSecurity) -> str:
    """Return the reason for an error code of the SASL authentication, as text."""
    if code == _NOT_AUTHENTICATED and security.by_msk_iam:
        return (
            f"does not take the token signed for {security.oauth.aws_region}: check {_REGION}, "
            "the IAM policy (kafka-cluster:Connect) and this machine's clock"
        )
    if code == _NOT_AUTHENTICATED and security.by_token:
        return (
            f"does not take the access token of {security.oauth.client_id}: check {_SCOPE}, "
            "and the issuer, audience and keys that the brokers expect"
        )
    if code == _NOT_AUTHENTICATED:
        return f"does not take this user and password by {security.mechanism}: check {_USER}"
    return f"refuses {security.mechanism} with error {code}: {message or 'no reason given'}"


def of_token(origin: str, reason: str) -> str:
    """Return the text for a login that is not possible, because `origin` gives no access token."""
    return f"needs an access token, and there is none from {origin}: {reason}"


def of_token_answer(status: int, code: str) -> str:
    """Return what is wrong, as text, if a token endpoint answers with this status and code."""
    problem = f"it answers {status}" + (f" ({code})" if code else "")
    if code in _UNKNOWN_CLIENT or (not code and status in {401, 403}):
        return f"{problem}: check {_CLIENT}"
    if code == "invalid_scope":
        return f"{problem}: check {_SCOPE}"
    return problem if code or status >= _SERVER_ERROR else f"{problem}: check {_ENDPOINT}"


def of_token_endpoint(error: Exception) -> str:
    """Return why a token endpoint cannot be reached."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            words = cause.verify_message
            return f"its certificate cannot be trusted ({words}): check {_ENDPOINT_AUTHORITY}"
        cause = cause.__cause__ or cause.__context__
    words = str(error) or type(error).__name__
    return f"it cannot be reached ({words}): check {_ENDPOINT}"


def of_signature(error: Exception) -> str:
    """Return why a token cannot be signed with AWS credentials.

    The text of `error` itself is not in the result.
    """
    # Amazon's signer raises AttributeError or ValueError if it finds no credentials.
    if isinstance(error, AttributeError | ValueError):
        return "no AWS credentials are found: docs/kafka.md says where they are looked for"
    kind = type(error).__name__
    return f"the AWS credentials cannot be used ({kind}): try `aws sts get-caller-identity`"


def wants_tls(*, sasl: bool) -> str:
    """Return the error text for a TLS listener when the client uses no TLS."""
    return f"wants TLS: set {PROTOCOL} to {'SASL_SSL' if sasl else 'SSL, or SASL_SSL'}"


def wants_sasl(security: KafkaSecurity) -> str:
    """Return the error text for a SASL listener when the client uses no SASL."""
    return f"wants SASL: set {PROTOCOL} to {'SASL_SSL' if security.by_tls else 'SASL_PLAINTEXT'}"


def speaks_no_tls(*, sasl: bool) -> str:
    """Return the error text for a listener without TLS when the client uses TLS."""
    in_the_clear = "SASL_PLAINTEXT" if sasl else "PLAINTEXT"
    return (
        "does not speak TLS here: check the port and the listener; only if it is meant to be in "
        f"the clear, set {PROTOCOL} to {in_the_clear}"
    )


def _of_their_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "has a certificate that has expired: renew the broker's"
    if error.verify_code == _NOT_YET_VALID:
        return "has a certificate that is not valid yet: look at the clocks"
    if error.verify_code in _NAMES:
        return (
            "has a certificate for other names: set ANGELIA_KAFKA_BOOTSTRAP to one of its names, "
            "or have it name the brokers"
        )
    words = error.verify_message
    return f"has a certificate of an authority that is not known ({words}): set {_AUTHORITY}"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")

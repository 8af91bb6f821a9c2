"""The options for secure connections of Spark's Kafka connector.

The options contain the certificates and passwords, so Spark's executors need no files. Spark does
not show the options of a read, and its logs hide options with these names.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from app.certificates import key_as_pkcs8
from app.domain.kafka_security import KafkaOAuth, KafkaSecurity
from app.secret_files import text_of

_PACKAGE: Final = "org.apache.kafka.common.security"
_OAUTH: Final = f"{_PACKAGE}.oauthbearer"
_MSK: Final = "software.amazon.msk.auth.iam"
# The options for AWS_MSK_IAM, Amazon's own login mechanism. Brokers that accept tokens signed with
# AWS credentials also support this mechanism.
_MSK_IAM: Final[Mapping[str, str]] = {
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{_MSK}.IAMLoginModule required;",
    "sasl.client.callback.handler.class": f"{_MSK}.IAMClientCallbackHandler",
}


def kafka_options(security: KafkaSecurity) -> Mapping[str, str]:
    """Return the options for secure reads from Kafka.

    The options have the current content of the files with certificates, keys and passwords.
    """
    return {f"kafka.{name}": value for name, value in _options(security)}


def java_options(security: KafkaSecurity) -> str:
    """Return the Java options for reads from Kafka.

    The options have the URL at which the JVM may request OAuth tokens. The result is empty if the
    JVM requests no tokens.
    """
    if not security.by_token or security.by_msk_iam:
        return ""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={security.oauth.token_url}"


def _options(security: KafkaSecurity) -> Iterator[tuple[str, str]]:
    yield "security.protocol", security.protocol
    if security.ca_file is not None:
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", security.ca_file.read_text()
    if security.certificate_file is not None and security.key_file is not None:
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", security.certificate_file.read_text()
        yield "ssl.keystore.key", key_as_pkcs8(security.key_file.read_bytes())
    if security.by_msk_iam:
        yield from _MSK_IAM.items()
    elif security.mechanism is not None:
        yield "sasl.mechanism", security.mechanism
        yield from _login_options(security)


def _login_options(security: KafkaSecurity) -> Iterator[tuple[str, str]]:
    if security.by_token:
        yield from _token_options(security.oauth)
    else:
        module = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
        words = {
            "username": security.username,
            "password": _text(security.password, security.password_file),
        }
        yield "sasl.jaas.config", _jaas(f"{_PACKAGE}.{module}LoginModule", words)


def _token_options(oauth: KafkaOAuth) -> Iterator[tuple[str, str]]:
    words = {
        "clientId": oauth.client_id,
        "clientSecret": _text(oauth.client_secret, oauth.client_secret_file),
        "scope": oauth.scope,
    }
    if oauth.ca_file is not None:
        words["ssl.truststore.type"] = "PEM"
        words["ssl.truststore.certificates"] = oauth.ca_file.read_text()
    yield "sasl.jaas.config", _jaas(f"{_OAUTH}.OAuthBearerLoginModule", words)
    yield "sasl.login.callback.handler.class", f"{_OAUTH}.OAuthBearerLoginCallbackHandler"
    yield "sasl.oauthbearer.token.endpoint.url", oauth.token_url or ""
    # Encode the client's id and secret as RFC 6749, section 2.3.1, requires. Angelia's other
    # connections encode them in the same way.
    yield "sasl.oauthbearer.header.urlencode", "true"


def _text(given: str | None, path: Path | None) -> str:
    return text_of(path) if path is not None else given or ""


def _jaas(module: str, options: Mapping[str, str | None]) -> str:
    words = [f"{name}={_quoted(value)}" for name, value in options.items() if value is not None]
    return f"{module} required {' '.join(words)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

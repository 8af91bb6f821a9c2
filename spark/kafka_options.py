"""The options for secure connections of Spark's Kafka connector.

Certificates and passwords are in the options, so executors need no files. Spark does not show
options of a read, and its logs hide options with these names.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.certificates import key_as_pkcs8
from app.domain.kafka_security import KafkaSecurity
from app.secret_files import text_of

_PACKAGE: Final = "org.apache.kafka.common.security"


def kafka_options(security: KafkaSecurity) -> Mapping[str, str]:
    """Return the options of a read, with the current content of the files."""
    return {f"kafka.{name}": value for name, value in _options(security)}


def _options(security: KafkaSecurity) -> Iterator[tuple[str, str]]:
    yield "security.protocol", security.protocol
    if security.ca_file is not None:
        yield "ssl.truststore.type", "PEM"
        yield "ssl.truststore.certificates", security.ca_file.read_text()
    if security.certificate_file is not None and security.key_file is not None:
        yield "ssl.keystore.type", "PEM"
        yield "ssl.keystore.certificate.chain", security.certificate_file.read_text()
        yield "ssl.keystore.key", key_as_pkcs8(security.key_file.read_bytes())
    if security.mechanism is not None:
        yield "sasl.mechanism", security.mechanism
        yield "sasl.jaas.config", _jaas(security)


def _jaas(security: KafkaSecurity) -> str:
    module = "plain.PlainLoginModule" if security.mechanism == "PLAIN" else "scram.ScramLoginModule"
    password = security.password
    if security.password_file is not None:
        password = text_of(security.password_file)
    words = f"username={_quoted(security.username or '')} password={_quoted(password or '')}"
    return f"{_PACKAGE}.{module} required {words};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""What connections to Kafka begin with, from the settings and their files."""

import ssl
from pathlib import Path

import pytest
import trustme

from app.domain.kafka_security import KafkaSecurity, SaslMechanism
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.refusals import RefusedError


def write(authority: trustme.CA, chain: Path, key: Path) -> None:
    issued = authority.issue_cert("angelia.test")
    issued.cert_chain_pems[0].write_to_path(chain)
    issued.private_key_pem.write_to_path(key)


@pytest.fixture
def security(tmp_path: Path) -> KafkaSecurity:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    write(trustme.CA(), chain, key)
    return KafkaSecurity(protocol="SSL", ca_file=chain, certificate_file=chain, key_file=key)


def test_brokers_are_known_by_certificates_for_their_names(security: KafkaSecurity) -> None:
    context = KafkaCredentials(security).context()
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_files_are_read_anew_only_when_they_change(security: KafkaSecurity) -> None:
    credentials = KafkaCredentials(security)
    before = credentials.context()
    assert credentials.context() is before
    assert security.certificate_file is not None
    assert security.key_file is not None
    write(trustme.CA(), security.certificate_file, security.key_file)
    assert credentials.context() is not before


def test_those_before_are_used_while_files_do_not_fit(security: KafkaSecurity) -> None:
    credentials = KafkaCredentials(security)
    before = credentials.context()
    assert security.key_file is not None
    write(trustme.CA(), security.key_file.with_name("other.crt"), security.key_file)
    assert credentials.context() is before
    with pytest.raises(RefusedError, match="do not fit each other"):
        KafkaCredentials(security).context()


def test_the_password_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "password"
    credentials = KafkaCredentials(
        KafkaSecurity(protocol="SASL_SSL", mechanism="PLAIN", username="u", password_file=path)
    )
    path.write_bytes(b"one\n\r\n")
    assert credentials.options()["sasl_plain_password"] == "one"
    path.write_text(" two ")
    assert credentials.options()["sasl_plain_password"] == " two "
    path.write_text("\n")
    assert credentials.options()["sasl_plain_password"] == " two "
    path.unlink()
    assert credentials.options()["sasl_plain_password"] == " two "


@pytest.mark.parametrize(
    ("mechanism", "sent"), [("PLAIN", b"a,b=c\0a,b=c\0p"), ("SCRAM-SHA-256", b"n,,n=a=2Cb=3Dc,r=")]
)
def test_a_user_name_is_written_as_its_mechanism_has_it(
    mechanism: SaslMechanism, sent: bytes
) -> None:
    credentials = KafkaCredentials(
        KafkaSecurity(protocol="SASL_SSL", mechanism=mechanism, username="a,b=c", password="p")
    )
    assert credentials.mechanism().auth_bytes().startswith(sent)


def test_nothing_of_a_password_is_shown() -> None:
    security = KafkaSecurity(protocol="SASL_SSL", mechanism="PLAIN", username="u", password="pw")
    assert "pw" not in repr(security)

"""Listeners of a test's broker with TLS and SASL, beside the listener without either."""

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.domain.kafka_security import KafkaOAuth, KafkaSecurity, SaslMechanism, SecurityProtocol
from tests.servers.ports import free_port
from tests.servers.token_endpoint import (
    AUDIENCE,
    KEYS,
    TokenEndpoint,
    make_signing_key,
    token_endpoint,
)

USER: Final = "angelia"
# The user who may do only what ACLs allow. All others may do everything.
LIMITED_USER: Final = "limited"
# The user for whom no ACL allows anything.
POWERLESS_USER: Final = "powerless"
PASSWORD: Final = "s3cret=ours"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS: Final = 1500

PROTOCOLS: Final[Mapping[str, SecurityProtocol]] = {
    "sasl_ssl": "SASL_SSL",
    "mutual": "SSL",
    "sasl_plaintext": "SASL_PLAINTEXT",
    # This listener uses SCRAM, with sessions that end after SESSION_MS.
    "short": "SASL_SSL",
    "expired": "SSL",
    # This listener uses OAUTHBEARER, with sessions that end.
    "oauth": "SASL_SSL",
}
"""The listeners by their names: `expired` has such a certificate."""

NO_TOKENS: Final = KafkaOAuth()

_JAAS: Final = "org.apache.kafka.common.security"


class SecuredAddress(NamedTuple):
    """The address of a listener, and the security settings that a client needs to connect."""

    bootstrap: str
    security: KafkaSecurity

    def environment(self) -> dict[str, str]:
        """Return the address and the security settings as environment variables of Angelia."""
        given = self.security
        values = {
            "BOOTSTRAP": self.bootstrap,
            "SECURITY_PROTOCOL": given.protocol,
            "SASL_MECHANISM": given.mechanism,
            "SASL_USERNAME": given.username,
            "SASL_PASSWORD": given.password,
            "OAUTH_TOKEN_URL": given.oauth.token_url,
            "OAUTH_CLIENT_ID": given.oauth.client_id,
            "OAUTH_CLIENT_SECRET": given.oauth.client_secret,
            "OAUTH_SCOPE": given.oauth.scope,
            "OAUTH_CA_FILE": given.oauth.ca_file,
            "CA_FILE": given.ca_file,
            "CERTIFICATE_FILE": given.certificate_file,
            "KEY_FILE": given.key_file,
        }
        return {f"ANGELIA_KAFKA_{name}": str(value) for name, value in values.items() if value}


class SecuredListeners:
    """The listeners of one broker with TLS or SASL. Their certificates and keys are in a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the listeners that the method `made` has written to the folder."""
        self._folder = folder
        self.ports: Mapping[str, int] = json.loads((folder / "ports").read_text())

    @classmethod
    def made(cls, folder: Path) -> "SecuredListeners":
        """Make the folder, with new certificates, keys and ports, and return the listeners."""
        folder.mkdir()
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        _write(folder, "server", authority.issue_cert("127.0.0.1"))
        # Give the certificate a common name: Java cannot read a certificate without one.
        _write(folder, "client", authority.issue_cert("angelia.test", common_name=USER))
        past = datetime.now(UTC) - timedelta(days=1)
        _write(folder, "expired", authority.issue_cert("127.0.0.1", not_after=past))
        trustme.CA().cert_pem.write_to_path(folder / "other.pem")
        make_signing_key(folder)
        (folder / "ports").write_text(json.dumps({name: free_port() for name in PROTOCOLS}))
        return cls(folder)

    def at(
        self,
        name: str,
        *,
        mechanism: SaslMechanism = "SCRAM-SHA-256",
        oauth: KafkaOAuth = NO_TOKENS,
    ) -> SecuredAddress:
        """Return the address of the listener with this name, and the settings to connect to it.

        `mechanism` is for listeners with SASL. `oauth` is only for the listener `oauth`.
        """
        security = KafkaSecurity(protocol=PROTOCOLS[name])
        if name == "oauth":
            security = replace(security, mechanism="OAUTHBEARER", oauth=oauth)
        elif security.by_sasl:
            security = replace(security, mechanism=mechanism, username=USER, password=PASSWORD)
        if security.by_tls:
            security = replace(security, ca_file=self.file("ca.pem"))
        if name == "mutual":
            security = replace(
                security,
                certificate_file=self.file("client.pem"),
                key_file=self.file("client.key"),
            )
        return SecuredAddress(f"127.0.0.1:{self.ports[name]}", security)

    def tokens(self) -> AbstractContextManager[TokenEndpoint]:
        """Return an endpoint that issues tokens, which the listener `oauth` accepts."""
        return token_endpoint(self._folder)

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder: `ca.pem`, `client.pem`, `client.key`, …

        `other.pem` is an authority that has issued none of the certificates.
        """
        return self._folder / name

    def settings(self) -> Iterator[tuple[str, str]]:
        """Yield the broker's settings for these listeners, except their addresses."""
        yield "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        yield "super.users", f"User:ANONYMOUS;User:{USER}"
        yield "listener.name.mutual.ssl.principal.mapping.rules", r"RULE:^.*CN=([^,]+).*$/$1/"
        for name, protocol in PROTOCOLS.items():
            if protocol.endswith("SSL"):
                yield from self._tls(f"listener.name.{name}.ssl", name)
            if name == "oauth":
                yield from self._tokens(f"listener.name.{name}")
            elif protocol.startswith("SASL"):
                yield from _sasl(f"listener.name.{name}")
        for mechanism in SCRAM:
            option = f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms"
            yield option, str(SESSION_MS)

    def java_options(self) -> Iterator[str]:
        """Yield the option for the broker's Java that names the URL of the public keys of tokens.

        Kafka reads such keys from no other URL.
        """
        yield f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys}"

    def users(self) -> Iterator[str]:
        """Yield options of `kafka-storage format` that create the users of SCRAM."""
        for mechanism in SCRAM:
            for user in (USER, LIMITED_USER, POWERLESS_USER):
                yield f"--add-scram={mechanism}=[name={user},password={PASSWORD}]"

    @property
    def _keys(self) -> str:
        return self.file(KEYS).as_uri()

    def _tokens(self, prefix: str) -> Iterator[tuple[str, str]]:
        yield f"{prefix}.sasl.enabled.mechanisms", "OAUTHBEARER"
        prefix = f"{prefix}.oauthbearer"
        yield f"{prefix}.connections.max.reauth.ms", "3600000"
        yield f"{prefix}.sasl.jaas.config", f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required;"
        handler = f"{_JAAS}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        yield f"{prefix}.sasl.server.callback.handler.class", handler
        yield f"{prefix}.sasl.oauthbearer.jwks.endpoint.url", self._keys
        yield f"{prefix}.sasl.oauthbearer.expected.audience", AUDIENCE

    def _tls(self, prefix: str, name: str) -> Iterator[tuple[str, str]]:
        certificate = "expired" if name == "expired" else "server"
        yield f"{prefix}.keystore.type", "PEM"
        yield f"{prefix}.keystore.location", str(self.file(f"{certificate}.both"))
        if name == "mutual":
            yield f"{prefix}.client.auth", "required"
            yield f"{prefix}.truststore.type", "PEM"
            yield f"{prefix}.truststore.location", str(self.file("ca.pem"))


def _sasl(prefix: str) -> Iterator[tuple[str, str]]:
    yield f"{prefix}.sasl.enabled.mechanisms", ",".join((*SCRAM, "PLAIN"))
    for mechanism in SCRAM:
        module = f"{_JAAS}.scram.ScramLoginModule required;"
        yield f"{prefix}.{mechanism.lower()}.sasl.jaas.config", module
    module = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    yield f"{prefix}.plain.sasl.jaas.config", module


def _write(folder: Path, name: str, issued: trustme.LeafCert) -> None:
    """Write a certificate and its key: for clients as two files, for the broker as one file.

    The key is in the format PKCS #8, as the broker needs it.
    """
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.pem").write_bytes(chain)
    (folder / f"{name}.key").write_bytes(encoded)
    (folder / f"{name}.both").write_bytes(encoded + chain)

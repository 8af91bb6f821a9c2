"""A token endpoint for tests (OAuth client credentials). Brokers of the tests accept its tokens."""

import json
import math
import ssl
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.domain.kafka_security import KafkaOAuth

KEYS: Final = "jwks.json"
AUDIENCE: Final = "kafka.test"
# A secret with characters that have a meaning in a header, or to Java.
SECRET: Final = 's3cret: ö"%'
CLIENT: Final = "angelia"

_KEY: Final = "jwt.key"
_KEY_ID: Final = "tests"


def make_signing_key(folder: Path) -> None:
    """Write a key that signs tokens, and the file of public keys for brokers, to the folder."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / _KEY).write_bytes(encoded)
    numbers = key.public_key().public_numbers()
    public = {
        "kty": "RSA",
        "use": "sig",
        "alg": "RS256",
        "kid": _KEY_ID,
        "n": _encoded(numbers.n.to_bytes(256)),
        "e": _encoded(numbers.e.to_bytes(3)),
    }
    (folder / KEYS).write_text(json.dumps({"keys": [public]}))


@dataclass
class TokenEndpoint:
    """Issues tokens to the one client that it knows, and remembers what was requested.

    Attributes:
        folder: The folder with the endpoint's certificate and the key that signs tokens.
        port: The port of the endpoint.
        lifetime_s: The lifetime of a token in seconds.
        subject: The name of the user in the tokens.
        audience: The service for which the tokens are.
        refusal: The status and body of an error that is answered instead of a token, if set.
        coding: The value of the header `Content-Encoding` in each response, if set.
        scopes: The scope in each request so far.
        codings: The value of the header `Accept-Encoding` in each request so far.
    """

    folder: Path
    port: int = 0
    lifetime_s: float = 3_600.0
    subject: str = CLIENT
    audience: str = AUDIENCE
    # The status and body of an error that is answered instead of a token.
    refusal: tuple[int, bytes] | None = None
    # The Content-Encoding that each response claims to have.
    coding: str | None = None
    scopes: list[str | None] = field(default_factory=list)
    # The codings that each request so far has allowed.
    codings: list[str | None] = field(default_factory=list)

    @property
    def oauth(self) -> KafkaOAuth:
        """The settings with which a client of Kafka requests tokens from this endpoint."""
        return KafkaOAuth(
            token_url=f"https://127.0.0.1:{self.port}/token",
            client_id=CLIENT,
            client_secret=SECRET,
            ca_file=self.folder / "ca.pem",
        )

    def answer(self, headers: Mapping[str, str], form: str) -> tuple[int, bytes]:
        """Return the status and the body of the response to a request for a token."""
        asked = parse_qs(form)
        self.scopes.append(asked.get("scope", [None])[0])
        self.codings.append(headers.get("accept-encoding"))
        if self.refusal is not None:
            return self.refusal
        basic = b64decode(headers.get("authorization", "").removeprefix("Basic ")).decode()
        if tuple(map(unquote_plus, basic.split(":"))) != (CLIENT, SECRET):
            return 401, b'{"error": "invalid_client"}'
        if asked["grant_type"] != ["client_credentials"]:
            return 400, b'{"error": "unsupported_grant_type"}'
        lifetime = {"token_type": "Bearer", "expires_in": self.lifetime_s}
        return 200, json.dumps({"access_token": self._token()} | lifetime).encode()

    def _token(self) -> str:
        key = load_pem_private_key((self.folder / _KEY).read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        now = time.time()
        claims = {
            "sub": self.subject,
            "aud": self.audience,
            "iat": int(now),
            # Round up, because Kafka reads whole seconds.
            "exp": math.ceil(now + self.lifetime_s),
            "scope": "kafka",
        }
        header = {"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"


@contextmanager
def token_endpoint(folder: Path) -> Iterator[TokenEndpoint]:
    """Run an endpoint inside the block, with the certificate and the keys in the folder."""
    endpoint = TokenEndpoint(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["content-length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = endpoint.answer(headers, form)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if endpoint.coding is not None:
                self.send_header("content-encoding", endpoint.coding)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # Let the thread of each connection do the TLS handshake. So a client that stops in its
        # handshake delays no other.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        endpoint.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            serving.join()


def _encoded(part: bytes) -> str:
    return urlsafe_b64encode(part).rstrip(b"=").decode()

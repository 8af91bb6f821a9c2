"""Tokens of Amazon's own package, verified as its brokers do: `make test-msk`.

The signature is AWS Signature Version 4, in the query of a URL.
"""

import hmac
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import pytest

from tests.servers.msk import signed

REGION: Final = "eu-west-1"
SECRET: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS: Final = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": "of/a+role==",
}
LIFETIME_S: Final = 900


def opened(token: str) -> SplitResult:
    """The URL in a token, which has no padding."""
    assert "=" not in token
    return urlsplit(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())


def signature(url: SplitResult, secret: str) -> str:
    """The signature that whoever has this secret puts on the URL."""
    query = dict(parse_qsl(url.query, strict_parsing=True))
    unsigned = {"X-Amz-Signature", "User-Agent"}
    names = sorted(query.keys() - unsigned)
    canonical = urlencode([(name, query[name]) for name in names], quote_via=quote, safe="-_.~")
    nothing = sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical}\nhost:{url.netloc}\n\nhost\n{nothing}"
    scope = query["X-Amz-Credential"].partition("/")[2]
    stamp = query["X-Amz-Date"]
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def test_a_token_is_a_signed_url_that_connects_to_the_brokers_of_the_region() -> None:
    found = signed(REGION, KEYS)
    url = opened(found["token"])
    query = dict(parse_qsl(url.query))
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Expires"] == str(LIFETIME_S)
    assert query["X-Amz-Security-Token"] == KEYS["AWS_SESSION_TOKEN"]
    day = query["X-Amz-Date"][:8]
    scope = f"AKIDEXAMPLE/{day}/eu-west-1/kafka-cluster/aws4_request"
    assert query["X-Amz-Credential"] == scope
    assert query["X-Amz-Signature"] == signature(url, SECRET) != signature(url, "another")
    assert 0 < found["lifetime_s"] <= LIFETIME_S


def test_credentials_are_found_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"[kafka]\naws_access_key_id = A\naws_secret_access_key = {SECRET}\n")
    profile = {"AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_PROFILE": "kafka"}
    url = opened(signed(REGION, profile)["token"])
    assert dict(parse_qsl(url.query))["X-Amz-Signature"] == signature(url, SECRET)


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        ({}, "no AWS credentials are found"),
        ({"AWS_PROFILE": "missing"}, "(ProfileNotFound)"),
        ({"AWS_ACCESS_KEY_ID": "A"}, "(PartialCredentialsError)"),
    ],
)
def test_what_is_wrong_with_credentials_is_said(credentials: dict[str, str], words: str) -> None:
    assert words in signed(REGION, credentials)["reason"]

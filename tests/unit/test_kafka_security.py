"""Settings of Kafka's connections that do not go together are refused, each by its name."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.config import Settings
from app.secret_files import SecretFile

SASL = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "PLAIN",
    "kafka_sasl_username": "u",
    "kafka_sasl_password": "p",
}
OAUTH = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "OAUTHBEARER",
    "kafka_oauth_token_url": "https://login.test/token",
    "kafka_oauth_client_id": "c",
    "kafka_oauth_client_secret": "s",
}
BY_IAM = {
    "kafka_security_protocol": "SASL_SSL",
    "kafka_sasl_mechanism": "OAUTHBEARER",
    "kafka_oauth_provider": "aws-msk-iam",
}
REGION = {"kafka_oauth_aws_region": "eu-west-1"}
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")

IN_A_FILE = SecretFile(Path(__file__))


def names_of_problems(given: Mapping[str, object]) -> list[str]:
    try:
        Settings.model_validate(given)
    except ValidationError as error:
        return [str(each["loc"][0]) for each in error.errors()]
    return []


def test_what_goes_together_is_taken() -> None:
    assert names_of_problems({}) == []
    assert names_of_problems(SASL) == []
    assert names_of_problems({"kafka_security_protocol": "SSL"}) == []
    assert names_of_problems(SASL | {"kafka_sasl_password": IN_A_FILE}) == []
    assert names_of_problems(OAUTH) == []
    assert names_of_problems(OAUTH | {"kafka_oauth_client_secret": IN_A_FILE}) == []


@pytest.mark.parametrize(
    "missing", ["kafka_sasl_mechanism", "kafka_sasl_username", "kafka_sasl_password"]
)
def test_what_is_missing_for_sasl_is_named(missing: str) -> None:
    assert names_of_problems(SASL | {missing: ""}) == [missing]


@pytest.mark.parametrize("missing", [name for name in OAUTH if "oauth" in name])
def test_what_is_missing_for_tokens_is_named(missing: str) -> None:
    assert names_of_problems(OAUTH | {missing: ""}) == [missing]


def test_what_a_mechanism_has_no_use_for_is_named() -> None:
    assert names_of_problems(OAUTH | {"kafka_sasl_username": "u"}) == ["kafka_sasl_username"]
    assert names_of_problems(SASL | {"kafka_oauth_scope": "s"}) == ["kafka_oauth_scope"]
    in_the_clear = OAUTH | {"kafka_security_protocol": "SSL", "kafka_sasl_mechanism": ""}
    assert names_of_problems(in_the_clear) == [name for name in OAUTH if "oauth" in name]


@pytest.fixture
def no_region_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in REGION_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_region_is_all_that_signed_tokens_need() -> None:
    assert names_of_problems(BY_IAM | REGION) == []
    assert Settings.model_validate(BY_IAM | REGION).kafka_security.by_msk_iam


@pytest.mark.parametrize("name", [name for name in OAUTH if "oauth" in name])
def test_what_only_an_endpoint_of_tokens_needs_is_named(name: str) -> None:
    assert names_of_problems(BY_IAM | REGION | {name: OAUTH[name]}) == [name]


def test_what_only_signed_tokens_need_is_named() -> None:
    assert names_of_problems(OAUTH | REGION) == ["kafka_oauth_aws_region"]
    assert names_of_problems(SASL | {"kafka_oauth_provider": "aws-msk-iam"}) == [
        "kafka_oauth_provider"
    ]


@pytest.mark.usefixtures("no_region_around")
@pytest.mark.parametrize("region", ["", "eu", "EU-west-1", "eu-west-1.example/x?", "eu-west-1\n"])
def test_what_is_no_region_is_named(region: str) -> None:
    given = BY_IAM | {"kafka_oauth_aws_region": region}
    assert names_of_problems(given) == ["kafka_oauth_aws_region"]


@pytest.mark.usefixtures("no_region_around")
@pytest.mark.parametrize("name", REGION_VARIABLES)
def test_the_region_of_amazons_own_variables_is_taken_where_none_is_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "us-east-1")
    by_iam = Settings.model_validate(BY_IAM).kafka_security
    assert by_iam.oauth.aws_region == "us-east-1"
    assert Settings.model_validate(BY_IAM | REGION).kafka_security.oauth.aws_region == "eu-west-1"
    assert Settings.model_validate(OAUTH).kafka_security.oauth.aws_region is None


@pytest.mark.parametrize(
    "url", ["login.test/token", "ftp://login.test", "https://u:p@login.test/token", "https://x/#a"]
)
def test_what_is_no_endpoint_of_tokens_is_named(url: str) -> None:
    assert names_of_problems(OAUTH | {"kafka_oauth_token_url": url}) == ["kafka_oauth_token_url"]


@pytest.mark.parametrize(
    ("protocol", "name", "value"),
    [
        ("PLAINTEXT", "kafka_sasl_mechanism", "PLAIN"),
        ("SSL", "kafka_sasl_username", "u"),
        ("SSL", "kafka_sasl_password", "p"),
        ("PLAINTEXT", "kafka_certificate_file", __file__),
        ("PLAINTEXT", "kafka_key_file", __file__),
        ("X", "kafka_security_protocol", "X"),
        ("SSL", "kafka_ca_file", __file__),
        ("SSL", "kafka_ca_file", "/nowhere"),
        ("SASL_SSL", "kafka_sasl_mechanism", "GSSAPI"),
    ],
)
def test_what_has_no_use_or_form_is_named(protocol: str, name: str, value: str) -> None:
    assert name in names_of_problems({"kafka_security_protocol": protocol, name: value})


@pytest.mark.parametrize(
    "bootstrap",
    ["127.0.0.1:90920", "a..b:9092", "a" * 64 + ":9092", "127.0.0.1:²", "h:0", "h", "h:1,", ":1"],
)
def test_what_is_no_address_of_a_broker_is_named(bootstrap: str) -> None:
    assert names_of_problems({"kafka_bootstrap": bootstrap}) == ["kafka_bootstrap"]


@pytest.mark.parametrize("bootstrap", ["", "kafka:9092, my_host.b-c.example.:1", "[::1]:65535"])
def test_addresses_of_brokers_are_taken(bootstrap: str) -> None:
    assert names_of_problems({"kafka_bootstrap": bootstrap}) == []


def test_a_password_in_a_file_that_has_no_use_is_named_by_its_file() -> None:
    given = {"kafka_security_protocol": "SSL", "kafka_sasl_password": IN_A_FILE}
    assert names_of_problems(given) == ["kafka_sasl_password_file"]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("kafka_certificate_file", "kafka_key_file"),
        ("kafka_key_file", "kafka_certificate_file"),
    ],
)
def test_a_certificate_and_its_key_go_together(given: str, missing: str) -> None:
    assert names_of_problems({"kafka_security_protocol": "SSL", given: __file__}) == [missing]

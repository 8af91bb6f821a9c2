"""A Kafka that refuses us: what people are told of it, and what they are not."""

import json
from dataclasses import replace

import pytest
from pydantic import SecretStr

from app.cli.commands.check import check
from app.cli.errors import CliError
from app.config import Settings
from app.main import create_app
from tests.contract.logs import eventually
from tests.fakes.keys import KEY
from tests.integration.api.server import serving
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import POWERLESS_USER, SecuredAddress

WRONG_PASSWORD = (
    "does not take this user and password by SCRAM-SHA-256: check ANGELIA_KAFKA_SASL_USERNAME"
)
WRONG_SECRET = "it answers 401 (invalid_client): check ANGELIA_KAFKA_OAUTH_CLIENT_ID and"
# As a URL it would be shown without its password.
WRONG = "s3cret:wr0ng"


@pytest.fixture(params=[WRONG_PASSWORD, WRONG_SECRET])
def why(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of a broker that refuses us, and that the settings name."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"ANGELIA_{name}".upper(), raising=False)
    secured = request.getfixturevalue("kafka_broker").secured
    oauth = replace(request.getfixturevalue("tokens").oauth, client_secret=WRONG)
    bootstrap, security = secured.at("oauth", oauth=oauth)
    if request.param == WRONG_PASSWORD:
        bootstrap, security = secured.at("sasl_ssl")
        security = replace(security, password=WRONG)
    for name, value in SecuredAddress(bootstrap, security).environment().items():
        monkeypatch.setenv(name, value)
    return str(request.param)


async def test_the_status_says_why(postgres_url: str, why: str) -> None:
    settings = Settings(auth="off", replication_factor=3, secret_key=SecretStr(KEY))
    asked = {"Accept": "application/json"}
    async with serving(create_app(settings, database_url=postgres_url)) as api:
        (problem,) = (await api.get("/status/health", headers=asked)).json()["mayLose"]
        assert why in problem

        async def says_why() -> bool:
            ready = await api.get("/status/ready", headers=asked)
            assert ready.status_code == 503
            return why in ready.json()["waitingFor"]["log"]

        # On a busy machine a broker may take longer than it is waited for.
        await eventually(says_why)


def test_a_check_says_why_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    # No database answers there: only Kafka is looked at.
    monkeypatch.setenv("ANGELIA_DATABASE_URL", "postgresql://joe@127.0.0.1:1/shop")
    with pytest.raises(CliError, match=r"message log$"):
        check(as_json=True)
    written = capsys.readouterr().out
    (part,) = (each for each in json.loads(written)["parts"] if each["name"] == "message log")
    assert why in part["problem"]
    for secret in WRONG.split(":"):
        assert secret not in written


def test_a_check_says_that_who_may_write_nothing_gets_no_producer_id(
    kafka_broker: SharedBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bootstrap, security = kafka_broker.secured.at("sasl_ssl")
    powerless = SecuredAddress(bootstrap, replace(security, username=POWERLESS_USER))
    for name, value in powerless.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANGELIA_DATABASE_URL", "postgresql://joe@127.0.0.1:1/shop")
    with pytest.raises(CliError):
        check(as_json=True)
    parts = {each["name"]: each for each in json.loads(capsys.readouterr().out)["parts"]}
    assert "ClusterAuthorizationFailed" in parts["idempotence"]["problem"]
    assert not parts["idempotence"]["required"]

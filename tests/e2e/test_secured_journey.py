"""What the documents tell people to do, done on servers as companies have them.

The broker speaks TLS, knows users by SCRAM, and gives ours the rights of docs/kafka.md. PostgreSQL
speaks TLS. All settings are in the environment, and secrets in files.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.cli import Place, wait_until
from tests.fakes.egress import ALLOW_LOOPBACK
from tests.fakes.keys import KEY
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.debian_postgres import PASSWORD, USER, DebianPostgres
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import LIMITED_USER
from tests.servers.kafka_listeners import PASSWORD as KAFKA_PASSWORD
from tests.servers.kafka_rights import admin_of, give
from tests.servers.postgres import database_on

# Many processes, one after the other.
pytestmark = pytest.mark.timeout(400)
TOPIC = "shop.orders"
BILLING = f"/topics/{TOPIC}/subscriptions/billing"
MESSAGES = 20


@pytest.fixture
def configured(
    place: Place,
    debian_postgres: DebianPostgres,
    kafka_broker: SharedBroker,
    kafka_namespace: str,
    tmp_path: Path,
) -> Iterator[Place]:
    """A place with these servers: a database without tables, and a user with few rights."""
    secrets = {
        "KAFKA_SASL_PASSWORD": KAFKA_PASSWORD,
        "DATABASE_PASSWORD": PASSWORD,
        "SECRET_KEY": KEY,
    }
    for name, text in secrets.items():
        (tmp_path / name).write_text(f"{text}\n")
    bootstrap, security = kafka_broker.secured.at("sasl_ssl", mechanism="SCRAM-SHA-512")
    with (
        database_on(debian_postgres.admin_url, template="template1", owner=USER) as url,
        admin_of(kafka_broker.bootstrap) as admin,
    ):
        give(admin, kafka_namespace)
        database = debian_postgres.verified(urlsplit(url).path[1:], credentials=USER)
        yield replace(
            place,
            settings={
                "ANGELIA_DATABASE_URL": database,
                "ANGELIA_KAFKA_BOOTSTRAP": bootstrap,
                "ANGELIA_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
                "ANGELIA_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
                "ANGELIA_KAFKA_SASL_USERNAME": LIMITED_USER,
                "ANGELIA_KAFKA_CA_FILE": str(security.ca_file),
                "ANGELIA_NAMESPACE": kafka_namespace,
                "ANGELIA_ALLOW_PRIVATE_ENDPOINTS": ALLOW_LOOPBACK,
                **{f"ANGELIA_{name}_FILE": str(tmp_path / name) for name in secrets},
            },
        )


@pytest.mark.long
async def test_the_journey_of_the_documents_on_secured_servers(
    configured: Place, tmp_path: Path
) -> None:
    refused = {b'{"order": 3}'}

    def reply(received: Received) -> Reply:
        return Reply(status=400 if received.body in refused else 200)

    async with Subscriber(reply) as receiver:
        await asyncio.to_thread(
            _journey, configured, tmp_path, receiver=receiver, accept_all=refused.clear
        )


def _journey(
    place: Place, folder: Path, *, receiver: Subscriber, accept_all: Callable[[], None]
) -> None:
    said(place, "migrate")
    assert "ok" in said(place, "check")
    with place.started("api") as api, place.started("worker") as first:
        api.says("ang_")
        (folder / "API_KEY").write_text(_key_in(api.output))
        ours = replace(
            place, settings={**place.settings, "ANGELIA_API_KEY_FILE": str(folder / "API_KEY")}
        )
        said(ours, "check")
        said(ours, "topic", "create", TOPIC, "--partitions", "4")
        said(ours, "subscription", "create", TOPIC, "billing", receiver.url)
        with ours.started("worker") as second, _publisher(place, api.output) as http:
            ids = [_published(http, number) for number in range(MESSAGES)]
            first.process.kill()
            ids += [_published(http, number) for number in range(MESSAGES, 2 * MESSAGES)]
            _accounts_for(http, len(ids), discarded=1)
            assert {each.message_id for each in receiver.received} == set(ids)
            _discard_is_found_and_sent_again(ours, ids[3], accept_all)
            _accounts_for(http, len(ids) + 1, discarded=1)
            assert "ok" in said(ours, "check")
            assert second.interrupt() == 0, second.output
        assert api.interrupt() == 0, api.output
    shown = api.output + second.output
    assert not [each for each in (KAFKA_PASSWORD, PASSWORD, KEY) if each in shown]


def _discard_is_found_and_sent_again(
    place: Place, message_id: str, accept_all: Callable[[], None]
) -> None:
    def found() -> list[str]:
        listed = json.loads(said(place, "undelivered", TOPIC, "billing", "--json"))
        return [each["messageId"] for each in listed]

    wait_until(lambda: found() == [message_id], "it is not listed")
    assert "400" in said(place, "trace", message_id, "--topic", TOPIC, "--subscription", "billing")
    accept_all()
    said(place, "retransmit", TOPIC, "billing", "--only", "discarded")


def _accounts_for(http: httpx.Client, count: int, *, discarded: int) -> None:
    def metrics() -> tuple[int, int]:
        answer = http.get(f"{BILLING}/metrics").raise_for_status().json()
        return answer["delivered"] + answer["discarded"], answer["discarded"]

    wait_until(lambda: metrics() == (count, discarded), "not all are delivered or discarded")


def _published(http: httpx.Client, number: int) -> str:
    body = json.dumps({"order": number})
    answer = http.post(f"/topics/{TOPIC}", content=body)
    assert answer.status_code == 201, answer.text
    return str(answer.headers["Hermes-Message-Id"])


def _publisher(place: Place, output: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {_key_in(output)}"}
    return httpx.Client(base_url=place.url, headers=headers, timeout=30, trust_env=False)


def _key_in(output: str) -> str:
    found = re.search(r"ang_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", output)
    assert found
    return found[0]


def said(place: Place, *arguments: str) -> str:
    """What a command says that must not fail."""
    done = place.run(*arguments)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout

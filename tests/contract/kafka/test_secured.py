"""Kafka over TLS and SASL: a part of the contract for `make test`, sessions that end, rotation."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
import structlog

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed, MessageLog
from app.log.kafka import kafka_log
from tests.contract.harness import KafkaHarness
from tests.contract.logs import (
    TOPIC,
    Collected,
    Holder,
    created,
    eventually,
    read_values,
    records,
)
from tests.servers.kafka import SharedBroker
from tests.servers.kafka_listeners import SESSION_MS, SecuredAddress, SecuredListeners
from tests.servers.token_endpoint import TokenEndpoint

GROUP: Final = "shop.orders_billing"


@pytest.fixture
def secured(kafka_broker: SharedBroker) -> SecuredListeners:
    return kafka_broker.secured


@pytest.mark.parametrize("name", ["sasl_ssl", "mutual", "oauth"])
async def test_all_that_a_log_is_for_goes_over_a_secured_listener(
    kafka_broker: SharedBroker, tokens: TokenEndpoint, name: str
) -> None:
    place = kafka_broker.secured.at(name, oauth=tokens.oauth)
    harness = KafkaHarness(kafka_broker.bootstrap, place)
    async with harness.opened() as log, log.tail() as tail:
        (partition,) = await created(log)
        tail.follow(partition, 0)
        await log.append(TOPIC, records("a", "b"))
        await Collected(tail).until(partition, "a", "b")
        assert await read_values(log, partition) == ["a", "b"]
        await log.commit({GROUP: {partition: Committed(1, "m")}})
        assert await log.committed({GROUP: [partition]}) == {GROUP: {partition: Committed(1, "m")}}
        assert await log.published({TOPIC: 1}) == {TOPIC: 2}
        await owned(log, partition)


async def owned(log: MessageLog, partition: Partition) -> None:
    async with log.ownership(member="here") as ownership, asyncio.TaskGroup() as tasks:
        ownership.subscribe([partition.topic])
        holder = Holder(ownership)
        following = tasks.create_task(holder.run())
        await holder.until(lambda held: held.owned == {partition})
        following.cancel()


async def test_sessions_are_begun_anew_before_they_end(
    secured: SecuredListeners, kafka_namespace: str
) -> None:
    """A broker closes connections on which something is asked after the end of their session."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 2.5 * SESSION_MS / 1000
    await works_until(lambda: loop.time() >= end, secured.at("short"), kafka_namespace)


async def test_tokens_are_renewed_and_shown_before_they_end(
    secured: SecuredListeners, kafka_namespace: str, tokens: TokenEndpoint
) -> None:
    """A session ends with its token."""
    tokens.lifetime_s = 4.0
    place = secured.at("oauth", oauth=tokens.oauth)
    await works_until(lambda: len(tokens.scopes) > 2, place, kafka_namespace)


async def works_until(is_over: Callable[[], bool], place: SecuredAddress, namespace: str) -> None:
    bootstrap, security = place
    count = 0
    with structlog.testing.capture_logs() as logged:
        async with kafka_log(bootstrap, namespace=namespace, security=security) as log:
            (partition,) = await created(log)
            while not is_over():
                await log.append(TOPIC, records(str(count)))
                chunk = await log.fetch(
                    partition, count + 1, bytes_max=1000, wait=timedelta(milliseconds=50)
                )
                assert not chunk.records
                assert not await log.commit({GROUP: {partition: Committed(count)}})
                await log.ping()
                count += 1
            assert len(await read_values(log, partition)) == count
    assert logged == []


async def test_a_password_is_taken_up_when_its_file_is_written_anew(
    secured: SecuredListeners, kafka_namespace: str, tmp_path: Path
) -> None:
    bootstrap, security = secured.at("sasl_ssl")
    path = tmp_path / "password"
    path.write_text("before\n")
    security = replace(security, password=None, password_file=path)
    async with kafka_log(bootstrap, namespace=kafka_namespace, security=security) as log:
        with pytest.raises(LogUnavailableError, match="does not take this user and password"):
            await log.ping()
        path.write_text(f"{secured.at('sasl_ssl').security.password}\n")
        await eventually(lambda: answers(log))
        await created(log)


async def test_a_certificate_is_taken_up_when_its_files_are_written_anew(
    secured: SecuredListeners, kafka_namespace: str, tmp_path: Path
) -> None:
    bootstrap, security = secured.at("mutual")
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    chain.write_bytes(secured.file("expired.pem").read_bytes())
    key.write_bytes(secured.file("expired.key").read_bytes())
    ours = replace(security, certificate_file=chain, key_file=key)
    async with kafka_log(bootstrap, namespace=kafka_namespace, security=ours) as log:
        with pytest.raises(LogUnavailableError, match="does not take our certificate"):
            await log.ping()
        chain.write_bytes(secured.file("client.pem").read_bytes())
        key.write_bytes(secured.file("client.key").read_bytes())
        await eventually(lambda: answers(log))
        await created(log)


async def test_a_client_secret_is_taken_up_when_its_file_is_written_anew(
    secured: SecuredListeners, kafka_namespace: str, tokens: TokenEndpoint, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    path.write_text("before\n")
    oauth = replace(tokens.oauth, client_secret=None, client_secret_file=path)
    bootstrap, security = secured.at("oauth", oauth=oauth)
    async with kafka_log(bootstrap, namespace=kafka_namespace, security=security) as log:
        with pytest.raises(LogUnavailableError, match=r"\(invalid_client\): check ANGELIA_KAFKA_O"):
            await log.ping()
        path.write_text(f"{tokens.oauth.client_secret}\n")
        await eventually(lambda: answers(log))
        await created(log)


async def answers(log: MessageLog) -> bool:
    try:
        await log.ping()
    except LogUnavailableError:
        return False
    return True


async def test_why_brokers_refuse_us_is_said_at_once_and_logged_once(
    secured: SecuredListeners, kafka_namespace: str
) -> None:
    bootstrap, security = secured.at("sasl_ssl")
    wrong = replace(security, password="wr0ng")
    with structlog.testing.capture_logs() as logged:
        async with kafka_log(bootstrap, namespace=kafka_namespace, security=wrong) as log:
            for look in (log.ping, log.copies, log.topic_names):
                with pytest.raises(LogUnavailableError, match="check ANGELIA_KAFKA_SASL_USERNAME"):
                    await look()
    assert [each["event"] for each in logged] == ["kafka_refused"]
    assert "wr0ng" not in str(logged)

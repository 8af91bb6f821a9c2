"""The database is full, or hangs: deliveries go on, and all are accounted for afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.e2e.accounts import (
    ALL,
    Entries,
    Mixed,
    agree,
    attempts,
    last_life,
    statuses,
    traces_when,
)
from tests.e2e.events import Events, some_events
from tests.e2e.service import Service, eventually, running
from tests.fakes.subscriber import Subscriber
from tests.servers.kafka import SharedBroker
from tests.servers.postgres import PostgresServer

TOPIC = "github.events"
PATIENCE_S = 60.0
BEFORE = 40
LOST = "Angelia-Traces-Lost"

# What PostgreSQL says when there is no room for a row.
_FULL = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
        AND tablename NOT LIKE 'traces\\_%' LOOP
        EXECUTE format('CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON %I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION no_room()', name);
    END LOOP;
END $$
"""
_ROOM = "DROP FUNCTION no_room CASCADE"


@contextmanager
def full_disk(url: str) -> Iterator[None]:
    """Let nothing more be written to the database inside the block; it can be read."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FULL)
        yield
        connection.execute(_ROOM)


class Run:
    """Payloads with mixed outcomes, some before something happens to the database, some meanwhile.

    At the end each message has the trace of what its receiver answered, and all counts agree.
    """

    def __init__(self, service: Service, receiver: Subscriber, events: Events) -> None:
        self.path = ""
        self.published: dict[str, bytes] = {}
        self._service = service
        self._receiver = receiver
        self._events = events
        # Some of the refused come before.
        self._bodies = sorted(events.bodies, key=lambda each: each[0] not in events.refused)
        self._script = Mixed(events.refused)
        receiver.reply = self._script

    async def begin(self) -> None:
        await self._service.topic(TOPIC, partitions=4, **ALL)
        self.path = await self._service.subscribe(TOPIC, "s", self._receiver.url)
        (await self._service.http.put(self.path, json=ALL)).raise_for_status()
        await self._service.applied(self.path)
        await self.publish(self._bodies[:1] + self._bodies[-BEFORE:])
        await self.accounted()

    async def go_on(self) -> None:
        """Publish the rest, and wait until the receiver has had the last word on each."""
        await self.publish(self._bodies[1:-BEFORE])
        await self._receiver.wait_until(self._is_answered, PATIENCE_S)

    async def publish(self, bodies: Sequence[tuple[bytes, str]]) -> None:
        self.published |= await self._service.publish_all(TOPIC, bodies)

    def _is_answered(self) -> bool:
        answers = self._script.answers
        return all(answers[each] and answers[each][-1][1] != 503 for each in self.published)

    async def accounted(self) -> None:
        refused = [each for each, body in self.published.items() if body in self._events.refused]
        delivered = len(self.published) - len(refused)
        await agree(self._service, self.path, delivered=delivered, refused=refused)

        def is_complete(message_id: str, entries: Entries) -> bool:
            end = "DISCARDED" if message_id in refused else "SUCCESS"
            said = attempts(entries)
            return said == self._script.answers[message_id] and statuses(entries)[-1] == end

        await traces_when(self._service, self.path, self.published, complete=is_complete)
        for message_id in self.published:
            assert last_life(self._script.answers[message_id]) == self._script.answers[message_id]
        answer = await self._service.http.get(f"{self.path}/events/none/trace")
        assert LOST not in answer.headers


async def test_while_the_disk_is_full_deliveries_go_on_and_nothing_of_them_is_lost(
    on_kafka: Mapping[str, str], logs: Path
) -> None:
    async with running(on_kafka, logs) as service, Subscriber() as receiver:
        run = Run(service, receiver, some_events())
        await run.begin()
        seen = next(iter(run.published))
        with full_disk(on_kafka["ANGELIA_DATABASE_URL"]):
            await run.go_on()
            # What was recorded before can be asked for.
            for question in (f"{run.path}/events/{seen}/trace", f"{run.path}/undelivered"):
                assert (await service.http.get(question)).json()
        await run.accounted()


@pytest.fixture
def on_own_postgres(
    kafka_broker: SharedBroker, kafka_namespace: str, postgres_server: PostgresServer
) -> Mapping[str, str]:
    """Settings for Kafka, and for a PostgreSQL that the test may stop."""
    return {
        "ANGELIA_DATABASE_URL": postgres_server.url,
        "ANGELIA_AUTH": "off",
        "ANGELIA_KAFKA_BOOTSTRAP": kafka_broker.bootstrap,
        "ANGELIA_NAMESPACE": kafka_namespace,
    }


@pytest.mark.parametrize("how", ["hangs", "is-down"])
async def test_while_the_database_does_not_answer_deliveries_go_on_and_questions_get_503(
    how: str,
    on_own_postgres: Mapping[str, str],
    postgres_server: PostgresServer,
    logs: Path,
) -> None:
    async with running(on_own_postgres, logs) as service, Subscriber() as receiver:
        run = Run(service, receiver, some_events())
        await run.begin()
        seen = next(iter(run.published))
        away = postgres_server.freeze if how == "hangs" else postgres_server.kill
        back = postgres_server.thaw if how == "hangs" else postgres_server.start
        away()
        await run.go_on()
        for question in (f"/events/{seen}/trace", f"{run.path}/undelivered"):
            answer = await service.http.get(question)
            assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            assert int(answer.headers["Retry-After"]) >= 1
        back()
        await eventually(lambda: is_ready(service))
        await run.accounted()


async def test_what_a_new_server_of_the_database_lacks_is_recorded_again_or_undone(
    on_own_postgres: Mapping[str, str],
    postgres_server: PostgresServer,
    logs: Path,
) -> None:
    """The new server is a replica that was behind."""
    async with (
        running(on_own_postgres, logs) as service,
        Subscriber() as receiver,
        Subscriber() as lost,
        Subscriber() as other,
    ):
        run = Run(service, receiver, some_events())
        await run.begin()
        postgres_server.copy()
        await eventually(lambda: is_ready(service))
        await service.applied(await service.subscribe(TOPIC, "lost", lost.url))
        await run.go_on()
        await run.accounted()
        taken = len(lost.message_ids)
        assert taken
        postgres_server.fail_over()
        await eventually(lambda: is_ready(service))
        await run.accounted()
        # The new server gives the number of the lost change to this one.
        await service.applied(await service.subscribe(TOPIC, "other", other.url))
        own_id = await service.publish(TOPIC, b"{}")
        await other.wait_until(lambda: other.message_ids == [own_id], PATIENCE_S)
        assert len(lost.message_ids) == taken


async def is_ready(service: Service) -> bool:
    return (await service.http.get("/status/ready")).is_success

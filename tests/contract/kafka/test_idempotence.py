"""An acknowledgement that is lost on its way: what it was for is stored once, and acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from functools import partial
from itertools import count

import pytest
from structlog.testing import capture_logs

from app.domain.catalogue.topic import Ack
from app.domain.errors import LogUnavailableError
from app.log.interface import LogStats, MessageLog, Position
from app.log.kafka import Compression, kafka_log
from app.log.kafka.append_queues import AppendBatch, AppendItem, AppendTopic, KafkaAppend, Located
from app.log.kafka.bridge import IoThread
from app.log.kafka.client import Client
from app.log.kafka.producer import Producer
from app.log.kafka.producer_ids import new_producer_id
from app.log.kafka.protocol.appends import read_answer, request_frame
from app.log.kafka.protocol.encoding import BatchStamp, batch_body, encode_record, whole_batch
from app.log.kafka.protocol.wire import FRAME_LENGTH
from app.log.kafka.sequences import AskForId, ProducerId, later
from tests.contract.logs import EVENTUALLY, TOPIC, created, eventually, read_values, records
from tests.fakes.lossy_proxy import LossyProxy, lossy_proxy
from tests.integration.log.brokers import PLAIN
from tests.servers.kafka import KafkaBroker, running_broker
from tests.servers.ports import free_port

NODE = 1
ALL = -1
OUT_OF_ORDER = 45


@pytest.fixture(scope="module")
def proxy_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(proxy_port: int) -> Iterator[KafkaBroker]:
    """One that its clients reach by the proxy."""
    with running_broker(behind=proxy_port) as started:
        yield started


@pytest.fixture
async def proxy(broker: KafkaBroker, proxy_port: int) -> AsyncIterator[LossyProxy]:
    async with lossy_proxy(broker.port, proxy_port) as opened:
        yield opened


@pytest.fixture(params=[Compression.NONE, Compression.ZSTD], ids=lambda codec: codec.name)
def codec(request: pytest.FixtureRequest) -> Compression:
    found: Compression = request.param
    return found


@pytest.fixture
async def log(
    proxy: LossyProxy, broker: KafkaBroker, kafka_namespace: str, codec: Compression
) -> AsyncIterator[MessageLog]:
    """A log that has a producer id."""
    assert not proxy.lost
    for attempt in count():
        async with kafka_log(
            broker.bootstrap, namespace=kafka_namespace, compression=codec
        ) as opened:
            await created(opened, f"other.{attempt}")
            if await has_id_after(opened.append(f"other.{attempt}", records("first of all"))):
                yield opened
                return


async def has_id_after(first_append: Awaitable[object]) -> bool:
    """Return whether the log has a producer id after its first append.

    It goes on without one if the broker gives none within a second. On a busy machine, this process
    alone may need that second.
    """
    with capture_logs() as logged:
        await first_append
    return "kafka_producer_id_unknown" not in {each["event"] for each in logged}


async def publish(log: MessageLog, value: str, *, ack: Ack = Ack.ALL) -> None:
    """As a publisher that tries again for as long as it is refused."""

    async def published() -> bool:
        try:
            await log.append(TOPIC, records(value, key="k"), ack=ack)
        except LogUnavailableError:
            return False
        return True

    await eventually(published)


async def test_what_is_not_acknowledged_on_the_way_is_stored_once(
    log: MessageLog, proxy: LossyProxy
) -> None:
    (partition,) = await created(log)
    await publish(log, "before")
    proxy.lose(1)
    await publish(log, "lost")
    await publish(log, "after")
    assert proxy.lost == 1
    assert await read_values(log, partition) == ["before", "lost", "after"]


async def test_who_waits_for_a_lost_acknowledgement_learns_the_position(
    log: MessageLog, proxy: LossyProxy
) -> None:
    await created(log)
    await log.append(TOPIC, records("before"))
    proxy.lose(2)
    found = await log.append(TOPIC, records("a", "b"))
    assert [position.offset for position in found] == [1, 2]
    assert proxy.lost == 2


async def test_the_very_first_message_is_stored_once(
    proxy: LossyProxy, broker: KafkaBroker, kafka_namespace: str, codec: Compression
) -> None:
    for attempt in count():
        async with kafka_log(
            broker.bootstrap, namespace=f"{kafka_namespace}{attempt}.", compression=codec
        ) as log:
            (partition,) = await created(log)
            proxy.lose(1)
            if await has_id_after(publish(log, "first")):
                assert await read_values(log, partition) == ["first"]
                return


async def test_the_order_of_a_key_is_kept_where_acknowledgements_are_lost(
    log: MessageLog, proxy: LossyProxy
) -> None:
    partitions = await created(log, partitions=3)
    await log.append(TOPIC, records("0", key="k"))
    proxy.lose(20, every=3)
    for first in range(1, 200, 10):
        await asyncio.gather(
            *(log.append(TOPIC, records(f"{n}", key="k")) for n in range(first, first + 10)),
            *(log.append(TOPIC, records("other")) for _ in range(3)),
        )
    assert proxy.lost > 3
    found = [value for each in partitions for value in await read_values(log, each)]
    assert [value for value in found if value != "other"] == [f"{n}" for n in range(201)]
    assert found.count("other") == 60


async def test_what_breaks_each_connection_is_given_up(log: MessageLog, proxy: LossyProxy) -> None:
    (partition,) = await created(log)
    await log.append(TOPIC, records("before"))
    proxy.loses = lambda: True
    with pytest.raises(LogUnavailableError):
        await log.append(TOPIC, records("given up"))
    proxy.lose(0)
    await log.append(TOPIC, records("after"))
    assert await read_values(log, partition) == ["before", "given up", "after"]


async def test_with_ack_of_the_leader_alone_it_fails_at_once(
    log: MessageLog, proxy: LossyProxy
) -> None:
    await created(log)
    await log.append(TOPIC, records("before"), ack=Ack.LEADER)
    proxy.lose(1)
    with pytest.raises(LogUnavailableError):
        await log.append(TOPIC, records("lost"), ack=Ack.LEADER)
    assert proxy.lost == 1


async def test_all_goes_on_where_the_broker_knows_nothing_of_the_numbers(
    log: MessageLog, broker: KafkaBroker, kafka_namespace: str
) -> None:
    """As after their time (`producer.id.expiration.ms`): the topic was deleted and made anew."""
    await created(log)
    await publish(log, "gone")
    await publish(log, "gone, too")
    async with kafka_log(broker.bootstrap, namespace=kafka_namespace) as other:
        await other.delete_topic(TOPIC)
        (partition,) = await created(other)
    await publish(log, "after")
    assert await read_values(log, partition) == ["after"]


class Ids:
    """Gives `first`, then new ones of the broker."""

    def __init__(self, new: AskForId, first: ProducerId | None = None) -> None:
        self._new = new
        self._first = first
        self.given: list[ProducerId] = []

    async def __call__(self) -> ProducerId:
        first, self._first = self._first, None
        self.given.append(first or await self._new())
        return self.given[-1]


@pytest.fixture
async def new_id(broker: KafkaBroker, proxy: LossyProxy) -> AsyncIterator[AskForId]:
    assert not proxy.lost
    io = IoThread("test-ids")

    async def made() -> Client:
        return Client(io, broker.bootstrap, credentials=PLAIN, name="ids", request_timeout=3.0)

    client = await io.run(made)
    yield lambda: io.run(partial(new_producer_id, io, client), seconds=EVENTUALLY)

    async def close() -> None:
        client.close()

    await io.run(close)
    await io.close()


def producer_with(ids: Ids, broker: KafkaBroker, namespace: str) -> Producer:
    async def located(_name: str) -> Located:
        return Located({0: NODE}, {NODE: ("127.0.0.1", broker.port)})

    return Producer(located, prefix=namespace, credentials=PLAIN, stats=LogStats(), ask_for_id=ids)


@pytest.mark.parametrize("epoch", [0, 7], ids=["out of order", "fenced"])
@pytest.mark.parametrize("codec", [Compression.NONE], indirect=True)
async def test_who_is_refused_its_numbers_goes_on_under_another_id(
    log: MessageLog,
    broker: KafkaBroker,
    kafka_namespace: str,
    new_id: AskForId,
    epoch: int,
) -> None:
    (partition,) = await created(log)
    shared = await new_id()
    ours = Ids(new_id, shared)
    theirs = Ids(new_id, ProducerId(shared.id, epoch))
    async with (
        producer_with(ours, broker, kafka_namespace) as producer,
        producer_with(theirs, broker, kafka_namespace) as other,
    ):
        await producer.append(TOPIC, records("a"), Ack.ALL)
        await producer.append(TOPIC, records("b"), Ack.ALL)
        await other.append(TOPIC, records("theirs 1", "theirs 2"), Ack.ALL)
        await producer.append(TOPIC, records("c"), Ack.ALL)
        await producer.append(TOPIC, records("d"), Ack.ALL)
    assert await read_values(log, partition) == ["a", "b", "theirs 1", "theirs 2", "c", "d"]
    assert len(ours.given) + len(theirs.given) == 3


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("codec", [Compression.NONE], indirect=True)
async def test_halves_under_the_numbers_of_the_whole_are_taken_only_where_that_is_not_stored(
    log: MessageLog,
    broker: KafkaBroker,
    kafka_namespace: str,
    new_id: AskForId,
    *,
    is_stored: bool,
) -> None:
    """So a batch of which nobody knows can be sent in smaller ones."""
    (partition,) = await created(log)
    topic = AppendTopic(f"{kafka_namespace}{TOPIC}")
    first, whole = batch_of(topic, "before"), batch_of(topic, *(f"{n}" for n in range(5)))
    first.stamp = BatchStamp(*await new_id(), 0)
    whole.stamp = later(first.stamp, 1)
    sent = [first, *([whole] if is_stored else []), *whole.halves()]
    codes = [await code_of(broker, batch) for batch in sent]
    assert codes == ([0, 0, OUT_OF_ORDER, OUT_OF_ORDER] if is_stored else [0, 0, 0])
    assert await read_values(log, partition) == ["before", *(f"{n}" for n in range(5))]


def batch_of(topic: AppendTopic, *found: str) -> AppendBatch:
    given = records(*found)
    done: asyncio.Future[Sequence[Position]] = asyncio.get_running_loop().create_future()
    call = KafkaAppend(topic.name, given, ALL, done, [], len(given))
    items = [AppendItem(call, place, encode_record(each, 0)) for place, each in enumerate(given)]
    return AppendBatch(topic, 0, NODE, items)


async def code_of(broker: KafkaBroker, batch: AppendBatch) -> int:
    body = batch_body([item.record for item in batch.items])
    raw = whole_batch(body, Compression.NONE, batch.stamp)
    frame = request_frame(
        1, {batch.topic.name: {0: raw}}, acks=ALL, timeout_ms=3_000, client="halves"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    async with asyncio.timeout(EVENTUALLY):
        writer.write(frame)
        (length,) = FRAME_LENGTH.unpack(await reader.readexactly(FRAME_LENGTH.size))
        answer = read_answer(await reader.readexactly(length))
    writer.close()
    return answer.answers[batch.topic.name, 0].error_code

"""Fetch requests and answers, held against kafka-python's own classes."""

import pytest
from kafka.protocol.consumer import FetchRequest as KafkaRequest
from kafka.protocol.consumer import FetchResponse

from app.domain.message import Partition
from app.log.kafka.protocol.fetches import (
    FETCH,
    LEADER_FETCH,
    AbortedTransaction,
    FetchAnswer,
    FetchedPart,
    FetchRequest,
    ReadOptions,
    fetch_frame,
    read_fetch,
)
from app.log.kafka.protocol.wire import FRAME_LENGTH, MalformedAnswerError

KEY, VERSION = FETCH
ABORTED = [AbortedTransaction(1, 2), AbortedTransaction(1, 9)]


def read_by_kafka_python(
    asked: FetchRequest, options: ReadOptions | None = None, *, leader_only: bool = False
) -> KafkaRequest:
    given = options or ReadOptions()
    frame = fetch_frame(77, asked, given, client="us", leader_only=leader_only)
    (length,) = FRAME_LENGTH.unpack_from(frame)
    assert length == len(frame) - FRAME_LENGTH.size
    version = LEADER_FETCH[1] if leader_only else VERSION
    return KafkaRequest.decode(frame[FRAME_LENGTH.size :], version=version, header=True)


@pytest.mark.parametrize("leader_only", [False, True])
def test_a_request_is_what_kafka_python_reads(*, leader_only: bool) -> None:
    asked = FetchRequest(
        positions={Partition("n.a", 0): 1 << 40, Partition("n.ü", 3): 7, Partition("n.a", 12): 0},
        bytes_max=1_000,
        wait_ms=250,
        session=(9, 4),
        forgotten=[Partition("n.b", 1), Partition("n.b", 2)],
    )
    request = read_by_kafka_python(asked, leader_only=leader_only)
    header = request.header
    assert (header.correlation_id, header.client_id) == (77, "us")
    version = LEADER_FETCH[1] if leader_only else VERSION
    assert (header.request_api_key, header.request_api_version) == (KEY, version)
    assert (request.replica_id, request.isolation_level, request.rack_id) == (-1, 1, "")
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (250, 1, 16 << 20)
    assert (request.session_id, request.session_epoch) == (9, 4)
    assert [
        (topic.topic, part.partition, part.fetch_offset, part.partition_max_bytes)
        for topic in request.topics
        for part in topic.partitions
    ] == [("n.a", 0, 1 << 40, 1_000), ("n.a", 12, 0, 1_000), ("n.ü", 3, 7, 1_000)]
    assert {
        (part.current_leader_epoch, part.log_start_offset)
        for topic in request.topics
        for part in topic.partitions
    } == {(-1, -1)}
    forgotten = [(topic.topic, list(topic.partitions)) for topic in request.forgotten_topics_data]
    assert forgotten == [("n.b", [1, 2])]


def test_a_request_names_the_rack_of_the_reader() -> None:
    asked = FetchRequest(positions={Partition("n.a", 0): 0}, bytes_max=1, wait_ms=0)
    assert read_by_kafka_python(asked, ReadOptions(rack="zone-ü")).rack_id == "zone-ü"


def test_a_poll_of_a_session_need_not_name_anything() -> None:
    request = read_by_kafka_python(FetchRequest(positions={}, bytes_max=1, wait_ms=250))
    assert (request.session_id, request.session_epoch) == (0, -1)
    assert (request.topics, request.forgotten_topics_data) == ([], [])


def test_what_is_not_committed_may_be_asked_for() -> None:
    asked = FetchRequest(positions={}, bytes_max=1, wait_ms=250)
    request = read_by_kafka_python(asked, ReadOptions(committed_only=False))
    assert request.isolation_level == 0


def an_answer(error_code: int = 0, version: int = VERSION) -> bytes:
    """As a broker writes it."""
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    aborted = [part.AbortedTransaction(producer_id=1, first_offset=each) for each in (2, 9)]
    parts = [
        part(
            partition_index=index,
            error_code=code,
            high_watermark=50,
            last_stable_offset=50,
            log_start_offset=0,
            aborted_transactions=ended,
            preferred_read_replica=-1,
            records=records,
        )
        for index, code, ended, records in (
            (0, 0, None, b"some"),
            (3, 1, [], None),
            (5, 0, aborted, b""),
        )
    ]
    response = FetchResponse(
        throttle_time_ms=250,
        error_code=error_code,
        session_id=9,
        responses=[topic(topic="n.a", partitions=parts), topic(topic="n.ü", partitions=parts[:1])],
        version=version,
    )
    return FRAME_LENGTH.pack(99) + bytes(response.encode(version=version))


@pytest.mark.parametrize("leader_only", [False, True])
@pytest.mark.parametrize("error_code", [0, 71])
def test_an_answer_is_read_as_kafka_python_writes_it(error_code: int, *, leader_only: bool) -> None:
    answer = an_answer(error_code, LEADER_FETCH[1] if leader_only else VERSION)
    assert read_fetch(answer, leader_only=leader_only) == FetchAnswer(
        error_code,
        9,
        [
            FetchedPart(Partition("n.a", 0), 0, b"some"),
            FetchedPart(Partition("n.a", 3), 1, b""),
            FetchedPart(Partition("n.a", 5), 0, b"", ABORTED),
            FetchedPart(Partition("n.ü", 0), 0, b"some"),
        ],
        250,
    )


def test_an_answer_that_ends_early_is_an_error_wherever_it_ends() -> None:
    whole = an_answer()
    for end in range(len(whole)):
        with pytest.raises(MalformedAnswerError):
            read_fetch(whole[:end])

"""Produce requests and answers, held against kafka-python's own classes."""

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from app.log.kafka.protocol.appends import (
    ANSWER_BYTES_MAX,
    VERSION,
    PartitionAnswer,
    read_answer,
    request_frame,
)
from app.log.kafka.protocol.wire import FRAME_LENGTH, MalformedAnswerError, frames


def an_answer(*, error_code: int = 0, message: str | None = None) -> bytes:
    """As a broker writes it."""
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    reasons = [
        partition.BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message=message)
    ]
    answers = [
        partition(
            index=index,
            error_code=error_code,
            base_offset=offset,
            log_append_time_ms=-1,
            log_start_offset=0,
            record_errors=reasons if error_code else [],
            error_message=message,
        )
        for index, offset in ((0, 40), (7, 1 << 40))
    ]
    response = ProduceResponse(
        responses=[
            topic(name="n.shop.orders", partition_responses=answers),
            topic(name="n.ü", partition_responses=answers[:1]),
        ],
        throttle_time_ms=250,
        version=VERSION,
    )
    return FRAME_LENGTH.pack(99) + bytes(response.encode(version=VERSION))


def test_a_request_is_what_kafka_python_reads() -> None:
    frame = request_frame(
        77,
        {"n.a": {0: b"first", 12: b""}, "n.ü": {3: b"x" * 70_000}},
        acks=-1,
        timeout_ms=5_000,
        client="us",
    )
    (length,) = FRAME_LENGTH.unpack_from(frame)
    assert length == len(frame) - FRAME_LENGTH.size
    request = ProduceRequest.decode(frame[FRAME_LENGTH.size :], version=VERSION, header=True)
    assert (request.header.correlation_id, request.header.client_id) == (77, "us")
    assert (request.header.request_api_key, request.header.request_api_version) == (0, VERSION)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (None, -1, 5_000)
    assert [
        (topic.name, [(each.index, bytes(each.records)) for each in topic.partition_data])
        for topic in request.topic_data
    ] == [("n.a", [(0, b"first"), (12, b"")]), ("n.ü", [(3, b"x" * 70_000)])]


def test_an_answer_is_read_as_kafka_python_writes_it() -> None:
    assert read_answer(an_answer()) == (
        99,
        {
            ("n.shop.orders", 0): PartitionAnswer(0, 40),
            ("n.shop.orders", 7): PartitionAnswer(0, 1 << 40),
            ("n.ü", 0): PartitionAnswer(0, 40),
        },
        250,
    )


@pytest.mark.parametrize("message", [None, "", "too old"])
def test_the_reasons_of_a_refusal_are_passed_over(message: str | None) -> None:
    answers = read_answer(an_answer(error_code=32, message=message)).answers
    assert {answer.error_code for answer in answers.values()} == {32}
    assert len(answers) == 3


def test_an_answer_that_ends_early_is_an_error_wherever_it_ends() -> None:
    whole = an_answer(error_code=32, message="why")
    for end in range(len(whole)):
        with pytest.raises(MalformedAnswerError):
            read_answer(whole[:end])


def test_frames_are_taken_whole_however_they_come() -> None:
    stream = b"".join(FRAME_LENGTH.pack(len(each)) + each for each in (b"one", b"", b"three"))
    buffer = bytearray()
    found: list[bytes] = []
    for byte in stream:
        buffer.append(byte)
        found += frames(buffer, bytes_max=ANSWER_BYTES_MAX)
    assert found == [b"one", b"", b"three"]
    assert not buffer
    assert list(frames(bytearray(stream), bytes_max=ANSWER_BYTES_MAX)) == [b"one", b"", b"three"]


@pytest.mark.parametrize("length", [-1, 1 << 30])
def test_an_answer_of_an_impossible_length_is_an_error(length: int) -> None:
    with pytest.raises(MalformedAnswerError):
        list(frames(bytearray(FRAME_LENGTH.pack(length)), bytes_max=ANSWER_BYTES_MAX))

"""Requests for ends and their answers, held against kafka-python's own classes."""

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from app.log.kafka.protocol.ends import LIST_OFFSETS, TopicEnds, ends_frame, read_ends
from app.log.kafka.protocol.wire import FRAME_LENGTH, MalformedAnswerError

KEY, VERSION = LIST_OFFSETS


def test_a_request_is_what_kafka_python_reads() -> None:
    frame = ends_frame(77, {"n.ü": [3], "n.a": [0, 12]}, client="us")
    (length,) = FRAME_LENGTH.unpack_from(frame)
    assert length == len(frame) - FRAME_LENGTH.size
    request = ListOffsetsRequest.decode(frame[FRAME_LENGTH.size :], version=VERSION, header=True)
    header = request.header
    assert (header.correlation_id, header.client_id) == (77, "us")
    assert (header.request_api_key, header.request_api_version) == (KEY, VERSION)
    assert request.replica_id == -1
    assert [
        (topic.name, part.partition_index, part.timestamp)
        for topic in request.topics
        for part in topic.partitions
    ] == [("n.ü", 3, -1), ("n.a", 0, -1), ("n.a", 12, -1)]


def an_answer() -> bytes:
    """As a broker writes it."""
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    part = topic.ListOffsetsPartitionResponse
    parts = [
        part(partition_index=index, error_code=code, timestamp=-1, offset=offset)
        for index, code, offset in ((0, 0, 1 << 40), (1, 6, -1), (2, 0, 7))
    ]
    response = ListOffsetsResponse(
        topics=[topic(name="n.ü", partitions=parts), topic(name="n.b", partitions=[])],
        version=VERSION,
    )
    return FRAME_LENGTH.pack(77) + bytes(response.encode(version=VERSION))


def test_an_answer_that_kafka_python_writes_is_read() -> None:
    assert read_ends(an_answer()) == [
        TopicEnds("n.ü", (1 << 40) + 7, {1: 6}),
        TopicEnds("n.b", 0, {}),
    ]


def test_an_answer_that_is_cut_off_is_malformed() -> None:
    whole = an_answer()
    for length in range(len(whole)):
        with pytest.raises(MalformedAnswerError):
            read_ends(whole[:length])

"""Commits and their answers, held against kafka-python's own classes."""

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.protocol.commits import COMMIT, commit_frame, read_commit
from app.log.kafka.protocol.wire import FRAME_LENGTH, MalformedAnswerError

KEY, VERSION = COMMIT
OFFSETS = {
    Partition("n.a", 0): Committed(1 << 40, "m"),
    Partition("n.ü", 3): Committed(7),
    Partition("n.a", 12): Committed(0, "ß" * 200),
}


def an_answer(codes: dict[Partition, int]) -> bytes:
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    response = OffsetCommitResponse(
        throttle_time_ms=5,
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.OffsetCommitResponsePartition(partition_index=index, error_code=code)
                ],
            )
            for (topic, index), code in codes.items()
        ],
        version=VERSION,
    )
    return FRAME_LENGTH.pack(77) + bytes(response.encode(version=VERSION))


def test_a_request_is_what_kafka_python_reads() -> None:
    frame = commit_frame(77, group="n.g", offsets=OFFSETS, client="us")
    (length,) = FRAME_LENGTH.unpack_from(frame)
    assert length == len(frame) - FRAME_LENGTH.size
    request = OffsetCommitRequest.decode(frame[FRAME_LENGTH.size :], version=VERSION, header=True)
    header = request.header
    assert (header.correlation_id, header.client_id) == (77, "us")
    assert (header.request_api_key, header.request_api_version) == (KEY, VERSION)
    nobody = (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
    assert (request.group_id, *nobody) == ("n.g", -1, "", None)
    assert {
        Partition(topic.name, part.partition_index): Committed(
            part.committed_offset, part.committed_metadata
        )
        for topic in request.topics
        for part in topic.partitions
    } == OFFSETS
    assert {
        part.committed_leader_epoch for topic in request.topics for part in topic.partitions
    } == {-1}


def test_an_answer_of_kafka_python_s_is_read() -> None:
    codes = {Partition("n.a", 0): 0, Partition("n.ü", 3): 16}
    assert read_commit(an_answer(codes)) == codes


def test_an_answer_that_ends_early_is_an_error_wherever_it_ends() -> None:
    whole = an_answer({Partition("n.a", 0): 0, Partition("n.ü", 3): 16})
    for length in range(len(whole)):
        with pytest.raises(MalformedAnswerError):
            read_commit(whole[:length])

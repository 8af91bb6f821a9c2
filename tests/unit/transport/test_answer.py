from itertools import cycle, pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.answer_reading import difference, read_by_us
from workers.transport.answer import AnswerReader, RawAnswer, UsualAnswer
from workers.transport.limits import BODY_MAX

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n"
    b"4\r\nbody\r\n0\r\nTrailer: t\r\n\r\n"
)
WITH_LENGTH = b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbody"
CONTINUED = b"HTTP/1.1 100 Continue\r\nX-B: 2\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + WITH_LENGTH
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nbody"

ANSWERS = {
    CHUNKED: RawAnswer(
        200, [(b"Transfer-Encoding", b"chunked"), (b"X-A", b"1")], b"body", truncated=False
    ),
    WITH_LENGTH: RawAnswer(
        503, [(b"Retry-After", b"7"), (b"Content-Length", b"4")], b"body", truncated=False
    ),
    CONTINUED: RawAnswer(
        503, [(b"Retry-After", b"7"), (b"Content-Length", b"4")], b"body", truncated=False
    ),
}


def feed_all(reader: AnswerReader, data: bytes, cuts: list[int]) -> bool:
    """Feed `data` cut at these places, up to where the answer is complete."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return any(reader.feed(data[start:end]) for start, end in pairwise(places))


@given(data=st.sampled_from(list(ANSWERS)), cuts=st.lists(st.integers(0, 200)))
def test_reads_the_same_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    reader = AnswerReader()
    assert feed_all(reader, data, cuts)
    assert reader.take() == ANSWERS[data]
    assert reader.reusable


@given(first=st.sampled_from(list(ANSWERS)), second=st.sampled_from(list(ANSWERS)))
def test_reads_one_answer_after_the_other(first: bytes, second: bytes) -> None:
    reader = AnswerReader()
    for data in (first, second):
        assert reader.feed(data)
        assert reader.take() == ANSWERS[data]


AN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
WITHIN = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(AN_ANSWER)


@given(
    answers=st.lists(st.tuples(st.sampled_from(list(ANSWERS)), st.lists(st.integers(0, 200)))),
    readers=st.integers(1, 3),
)
def test_readers_that_share_what_is_usual_read_what_each_would_alone(
    answers: list[tuple[bytes, list[int]]], readers: int
) -> None:
    usual = UsualAnswer()
    sharing = cycle([AnswerReader(usual) for _ in range(readers)])
    for reader, (data, cuts) in zip(sharing, answers, strict=False):
        assert feed_all(reader, data, cuts)
        assert reader.reusable
        assert reader.take() == ANSWERS[data]


def test_the_bytes_of_a_usual_answer_within_a_body_are_no_answer() -> None:
    reader = AnswerReader()
    assert reader.feed(AN_ANSWER)
    reader.take()
    assert not reader.feed(WITHIN)
    assert reader.feed(AN_ANSWER)
    assert reader.take().body == AN_ANSWER


def test_more_after_a_usual_answer_ends_the_connection_and_is_not_taken_for_usual() -> None:
    usual = UsualAnswer()
    first, second = AnswerReader(usual), AnswerReader(usual)
    for data, reusable in ((AN_ANSWER, True), (AN_ANSWER + AN_ANSWER, False)):
        assert first.feed(data)
        assert first.reusable is reusable
        first.take()
    assert second.feed(AN_ANSWER)
    assert second.reusable
    second.feed(b"H")
    assert not second.reusable


def test_a_usual_answer_is_the_very_same_and_a_large_one_is_not_kept() -> None:
    usual = UsualAnswer()
    for size, same in ((10, True), (4_096, False)):
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
        taken = []
        for _ in range(2):
            reader = AnswerReader(usual)
            assert reader.feed(data)
            taken.append(reader.take())
        assert (taken[0] is taken[1]) is same
        assert taken[0] == taken[1]


def test_a_connection_that_ended_its_second_answer_by_closing_is_not_reused() -> None:
    reader = AnswerReader()
    assert reader.feed(WITH_LENGTH)
    reader.take()
    assert reader.reusable
    assert not reader.feed(UNTIL_CLOSED)
    reader.end()
    assert not reader.reusable


@given(cuts=st.lists(st.integers(0, 200)))
def test_closing_ends_a_body_without_length(cuts: list[int]) -> None:
    reader = AnswerReader()
    assert not feed_all(reader, UNTIL_CLOSED, cuts)
    reader.end()
    assert reader.take() == RawAnswer(200, [(b"X-A", b"1")], b"body", truncated=False)
    assert not reader.reusable


def test_a_body_up_to_the_cap_is_whole_and_one_byte_more_is_cut() -> None:
    for size, truncated in ((BODY_MAX, False), (BODY_MAX + 1, True)):
        reader = AnswerReader()
        assert reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        answer = reader.take()
        assert len(answer.body) == BODY_MAX
        assert answer.truncated is truncated
        assert reader.reusable is not truncated


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        WITH_LENGTH + WITH_LENGTH,
        WITH_LENGTH + b"HTTP/1.1 2",
        WITH_LENGTH + b"garbage",
        WITH_LENGTH + b"\x00",
    ],
)
def test_a_connection_that_said_too_much_or_goodbye_is_not_reused(data: bytes) -> None:
    reader = AnswerReader()
    assert reader.feed(data)
    assert not reader.reusable


@given(data=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=5))
def test_any_bytes_are_an_answer_or_a_protocol_error(data: bytes, cuts: list[int]) -> None:
    reader = AnswerReader()
    try:
        if not feed_all(reader, data, cuts):
            reader.end()
        reader.take()
    except httpx.RemoteProtocolError:
        pass


@given(
    data=st.lists(
        st.sampled_from(
            [
                b"HTTP/1.1 200 OK\r\n",
                b"HTTP/1.1 100 C\r\n",
                b"HTTP/1.0 204 N\r\n",
                b"Content-Length: 3\r\n",
                b"Content-Length: 99999999999999999999\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"Transfer-Encoding: gzip\r\n",
                b"Connection: upgrade\r\nUpgrade: h2c\r\n",
                b"\r\n",
                b"3\r\nabc\r\n",
                b"0\r\n\r\n",
                b"FFFFFFFFFFFFFFFFF\r\n",
                b"abc",
                b"\x00",
                b" folded\r\n",
            ]
        ),
        max_size=12,
    ),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_any_pieces_of_http_are_an_answer_or_a_protocol_error(
    data: list[bytes], cuts: list[int]
) -> None:
    reader = AnswerReader()
    try:
        if not feed_all(reader, b"".join(data), cuts):
            reader.end()
        answer = reader.take()
    except httpx.RemoteProtocolError:
        return
    assert answer.status >= 200


@pytest.mark.parametrize(
    ("fields", "reusable"),
    [
        (b"Connection: keep-alive\r\nContent-Length: 0\r\n\r\n", True),
        (b"Connection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"Connection: close, keep-alive\r\nContent-Length: 0\r\n\r\n", False),
        (b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", False),
        (b"Content-Length: 0\r\n\r\n", False),
    ],
)
def test_the_connection_of_an_old_answer_is_kept_where_it_says_so_clearly(
    fields: bytes, *, reusable: bool
) -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.0 200 OK\r\n" + fields)
    assert reader.reusable is reusable


@pytest.mark.parametrize("zeros", [0, 19, 20, 300])
def test_a_length_has_at_most_twenty_digits(zeros: int) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * zeros + b"2\r\n\r\nok"
    assert (read_by_us(said, ()).status is None) == (zeros >= 20)
    assert difference(said, ()) is None


@pytest.mark.parametrize("status", ["000", "012", "099"])
def test_a_status_below_100_is_no_answer_and_its_body_is_not_that_of_the_next(status: str) -> None:
    said = b"HTTP/1.1 %b \r\nContent-Length: 3\r\n\r\nabc" % status.encode()
    with pytest.raises(httpx.RemoteProtocolError, match="not an HTTP answer: a status below 100"):
        AnswerReader().feed(said + WITH_LENGTH)


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
)
@pytest.mark.parametrize("status", [100, 103, 199])
def test_a_body_of_an_interim_answer_is_not_that_of_the_next(status: int, framing: bytes) -> None:
    said = b"HTTP/1.1 %d \r\n%b%b" % (status, framing, WITH_LENGTH)
    with pytest.raises(httpx.RemoteProtocolError, match="a body of an interim answer"):
        AnswerReader().feed(said)
    assert difference(said, ()) is None


@pytest.mark.parametrize("count", [17, 1_000])
def test_interim_answers_are_counted_also_if_the_last_one_comes_with_them(count: int) -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    assert AnswerReader().feed(interim * 16 + WITH_LENGTH)
    with pytest.raises(httpx.RemoteProtocolError, match="more than 16 interim answers"):
        AnswerReader().feed(interim * count + WITH_LENGTH)


def test_an_interim_answer_may_say_that_it_has_no_body() -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + WITH_LENGTH)
    assert (reader.take().status, reader.reusable) == (503, True)


HEADS = {
    "a length twice": b"Content-Length: 4\r\nX-A: 1\r\ncontent-length:4 \r\n",
    "a length twice in a line": b"Content-Length: 4, 4\r\nX-A: 1\r\n",
    "both": b"Content-Length: 4,4\r\nContent-Length: 4\r\nX-A: 1\r\n",
    "a folded length": b"Content-Length:\r\n 4\r\nX-A: 1\r\n",
}


@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 103 Hints\r\nLink: a\r\n b\r\n\r\n"])
def test_a_length_that_is_said_twice_counts_once(interim: bytes, fields: bytes) -> None:
    body = b"\r\n x"
    said = interim + b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n" + body
    usual = UsualAnswer()
    for cuts in ([], *([cut] for cut in range(len(said))), range(len(said))):
        reader = AnswerReader(usual)
        assert feed_all(reader, said, list(cuts))
        assert reader.reusable
        answer = reader.take()
        assert (answer.status, answer.body) == (200, body)
        assert sorted(answer.headers) == [(b"Content-Length", b"4"), (b"X-A", b"1")]
        assert feed_all(reader, WITH_LENGTH, [7])
        assert reader.take() == ANSWERS[WITH_LENGTH]
        assert difference(said, list(cuts)) is None


def test_a_value_on_several_lines_is_one_value() -> None:
    said = b"HTTP/1.1 200 OK\r\nX-A: 1,\r\n\t 2\r\n  3\r\nX-B:\r\n 4\r\nContent-Length: 0\r\n\r\n"
    for cut in range(len(said)):
        reader = AnswerReader()
        assert feed_all(reader, said, [cut])
        values = [value for _, value in reader.take().headers]
        assert values == [b"1, 2 3", b"4", b"0"]


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: 4, 5\r\n",
        b"Content-Length: 4\r\nContent-Length: 4, \r\n",
        b"Content-Length: +4, +4\r\n",
        b"Content-Length: x\r\nContent-Length: x\r\n",
        b"Content-Length: \r\nContent-Length: \r\n",
        b"Content-Length: 4\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b" Content-Length: 4\r\n",
        b"Content-Length: 4\r\nX: \x00\r\n",
    ],
)
def test_a_head_whose_length_is_not_clear_is_refused(fields: bytes) -> None:
    said = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\nbody"
    for cut in range(len(said)):
        with pytest.raises(httpx.RemoteProtocolError, match="not an HTTP answer"):
            feed_all(AnswerReader(), said, [cut])


@pytest.mark.parametrize("wrong", [b"X: y\n\n", b"X: \x00", b"X: y\rZ"])
def test_a_head_that_is_refused_in_any_form_is_not_read_to_its_end(wrong: bytes) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n" + wrong
    with pytest.raises(httpx.RemoteProtocolError, match="not an HTTP answer"):
        AnswerReader().feed(said)


def test_a_refused_head_that_has_no_end_is_limited() -> None:
    reader = AnswerReader()
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n" + b"X: y\r\n" * 10_000
    with pytest.raises(httpx.RemoteProtocolError, match="bytes of headers"):
        feed_all(reader, said + said, list(range(0, 2 * len(said), 500)))


def test_a_refused_head_that_is_not_complete_ends_with_the_connection() -> None:
    reader = AnswerReader()
    assert not reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4, 4\r\n")
    with pytest.raises(httpx.RemoteProtocolError, match="closed within the answer"):
        reader.end()
    reader.close()
    with pytest.raises(httpx.RemoteProtocolError, match="the reader is closed"):
        reader.feed(b"\r\n")

import httpx
import pytest

from workers.transport.wire import fields_of, one_request, request_start, whole_request

SHARED = request_start(b"POST", b"/a", [(b"Host", b"h")])


def test_a_request_is_its_start_its_own_headers_and_its_body_framed_by_length() -> None:
    assert whole_request(SHARED, [(b"X-A", b"1"), (b"X-B", b"")], b"body") == (
        b"POST /a HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-B: \r\nContent-Length: 4\r\n\r\nbody"
    )


def test_a_request_by_itself_is_as_one_of_many() -> None:
    headers = [(b"Host", b"h"), (b"content-length", b"9")]
    alone = one_request(b"POST", b"/a", headers=headers, body=b"body")
    assert alone == whole_request(SHARED, [], b"body")
    with pytest.raises(httpx.LocalProtocolError):
        one_request(b"POST", b"/a", headers=[(b"X", b"1\r\nX-B: 2")], body=b"")


def test_a_request_is_taken_apart_again() -> None:
    request = whole_request(SHARED, [(b"X-A", b"a: b"), (b"X-B", b"")], b"x\r\n\r\ny")
    assert fields_of(request) == (
        b"POST",
        b"/a",
        [(b"Host", b"h"), (b"X-A", b"a: b"), (b"X-B", b""), (b"Content-Length", b"6")],
        b"x\r\n\r\ny",
    )


def test_what_others_say_about_framing_is_not_sent() -> None:
    said = [(b"content-length", b"99"), (b"Transfer-Encoding", b"chunked")]
    start = request_start(b"POST", b"/", said)
    assert whole_request(start, said, b"a") == b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na"


@pytest.mark.parametrize(
    "header",
    [
        (b"X-A", b"1\r\nX-B: 2"),
        (b"X-A", b"1\n"),
        (b"X-A", b"1\r"),
        (b"X\r\nA", b"1"),
        (b"X-A", b"\r\n\r\n"),
    ],
)
def test_a_line_break_in_a_header_is_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        request_start(b"POST", b"/", [header])
    with pytest.raises(httpx.LocalProtocolError):
        whole_request(SHARED, [header], b"")


def test_a_line_break_in_a_target_is_refused() -> None:
    with pytest.raises(httpx.LocalProtocolError):
        request_start(b"POST", b"/ HTTP/1.1\r\nX-A: 1\r\n", [])

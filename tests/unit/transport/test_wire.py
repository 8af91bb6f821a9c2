import httpx
import pytest

from workers.transport.wire import request_bytes


def test_writes_target_headers_and_body_framed_by_length() -> None:
    request = httpx.Request(
        "POST", "http://host:8/a%20b?c=d#e", headers={"X-A": "1"}, content=b"body"
    )
    assert request_bytes(request, b"body") == (
        b"POST /a%20b?c=d HTTP/1.1\r\nHost: host:8\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nbody"
    )


def test_what_the_caller_says_about_framing_is_not_sent() -> None:
    headers = {"content-length": "99", "Transfer-Encoding": "chunked"}
    request = httpx.Request("POST", "http://host/", headers=headers, stream=httpx.ByteStream(b"a"))
    assert request_bytes(request, b"a") == b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na"


@pytest.mark.parametrize(
    ("name", "value"),
    [("X-A", "1\r\nX-B: 2"), ("X-A", "1\n"), ("X-A", "1\r"), ("X\r\nA", "1"), ("X-A", "\r\n\r\n")],
)
def test_a_line_break_in_a_header_is_refused(name: str, value: str) -> None:
    request = httpx.Request("POST", "http://host/", headers={name: value})
    with pytest.raises(httpx.LocalProtocolError):
        request_bytes(request, b"")

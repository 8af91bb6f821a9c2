import gzip

import httpx

from workers.transport.answer import RawAnswer
from workers.transport.response import LazyResponse

REQUEST = httpx.Request("POST", "http://h.test/")


def a_response(*, truncated: bool = False) -> httpx.Response:
    headers = [(b"Content-Encoding", b"gzip"), (b"X-A", b"1"), (b"X-A", b"2")]
    body = gzip.compress(b'{"a":1}')
    return LazyResponse.of(RawAnswer(201, headers, body, truncated), REQUEST)


async def test_it_is_httpx_s_response_with_all_that_came() -> None:
    response = a_response()
    await response.aread()
    assert (response.status_code, response.json()) == (201, {"a": 1})
    assert response.headers["x-a"] == "1, 2"
    assert response.headers.raw[1:] == [(b"X-A", b"1"), (b"X-A", b"2")]
    assert response.request is REQUEST


def test_it_says_whether_there_was_more_body() -> None:
    assert a_response(truncated=True).extensions["truncated"] is True
    assert a_response().extensions["truncated"] is False


def test_its_headers_can_be_changed() -> None:
    response = a_response()
    response.headers["X-A"] = "3"
    assert response.headers["x-a"] == "3"
    response.headers = httpx.Headers({"X-B": "4"})
    assert dict(response.headers) == {"x-b": "4"}


def test_it_has_all_that_httpx_gives_its_own() -> None:
    """It is made without httpx's constructor, whose attributes another version may change."""
    body = httpx.ByteStream(b"a")
    extensions = {"truncated": False}
    own = vars(httpx.Response(201, stream=body, request=REQUEST, extensions=extensions))
    ours = vars(LazyResponse.of(RawAnswer(201, [], b"a", truncated=False), REQUEST))
    del own["headers"]
    assert {name: value for name, value in own.items() if name != "stream"} == {
        name: value for name, value in ours.items() if name not in {"stream", "raw_headers"}
    }
    assert list(ours["stream"]) == list(body)


def test_what_is_done_to_one_is_not_seen_in_another() -> None:
    first, second = a_response(), a_response()
    first.history.append(second)
    first.extensions["seen"] = True
    first.headers["X-A"] = "3"
    assert (second.history, "seen" in second.extensions) == ([], False)
    assert second.headers["x-a"] == "1, 2"

from hypothesis import given
from hypothesis import strategies as st

from app.domain.catalogue.subscription import Subscription
from app.domain.message import Message, Partition, Record
from workers.delivery.plain_requests import PlainRequests
from workers.delivery.request import RequestHeaders
from workers.transport.wire import request_start, whole_request

START = request_start(b"POST", b"/a%20b?c=%25d", [(b"Host", b"h")])


@given(
    message_id=st.binary(min_size=1, max_size=60),
    content_type=st.binary(max_size=40),
    body=st.binary(max_size=100),
    retry_count=st.integers(0, 10_000),
    keyed=st.booleans(),
)
def test_is_byte_for_byte_what_a_list_of_headers_makes(
    message_id: bytes, content_type: bytes, body: bytes, retry_count: int, *, keyed: bool
) -> None:
    subscription = Subscription(
        id="s-1", topic="g.t", name="s", endpoint="http://h/", idempotency_key=keyed
    )
    headers = RequestHeaders(subscription, host=b"h")
    record = Record(7, 1, None, body, [(b"id", message_id), (b"ct", content_type)])
    message = Message(record, Partition("g.t", 0))
    expected = whole_request(START, headers.of(message, retry_count), body)
    assert PlainRequests(START, headers).of(message, body, retry_count) == expected

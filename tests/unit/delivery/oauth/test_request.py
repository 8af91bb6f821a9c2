"""There is one Authorization header in a request, and it is the token's."""

from dataclasses import replace

import pytest

from app.domain.catalogue.subscription import Subscription
from app.domain.message import Message, Partition, Record
from tests.fakes.oauth import POLICY
from workers.delivery.request import RequestHeaders

PLAIN = Subscription(id="s-1", topic="g.t", name="s", endpoint="http://h.test/")
PUBLISHED = [(b"h-Authorization", b"Bearer of-the-publisher"), (b"h-X-Tenant", b"acme")]


@pytest.mark.parametrize("oauth", [None, POLICY])
def test_what_a_publisher_sent_as_authorization_does_not_go_beside_a_token(
    oauth: object,
) -> None:
    subscription = PLAIN if oauth is None else replace(PLAIN, oauth=POLICY)
    message = Message(Record(7, 1, None, b"{}", PUBLISHED), Partition("g.t", 0))
    sent = RequestHeaders(subscription, host=b"h.test").of(message, 0)
    names = {name for name, _ in sent}
    assert b"X-Tenant" in names
    assert (b"Authorization" in names) == (oauth is None)

"""The endpoints: one server with the address of its own for each, which remembers numbers only."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.soak.account import SubscriptionAccount

OK: Final = Reply()
HANGS_S: Final = 3_600.0
# What an endpoint does while it is not well. One that hangs answers when nobody waits any more.
MOODS: Final[Mapping[str, Reply]] = {
    "fails": Reply(status=503),
    "hangs": Reply(delay=HANGS_S),
    "closes": Reply(status=500, headers={"Connection": "close"}),
    "is slow": Reply(delay=0.5),
    "asks to wait": Reply(status=429, headers={"Retry-After": "2"}),
}
ACCEPTED: Final = 300
REFUSED: Final = Reply(status=400)
# One that refuses some refuses one message in so many.
REFUSED_ONE_IN: Final = 500
# All addresses of 127.0.0.0/8 are of this machine. So each endpoint can have another one.
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the service may deliver to loopback only


@dataclass(slots=True)
class Endpoint:
    """One endpoint, the account of its subscription, and its mood."""

    account: SubscriptionAccount
    refuses_some: bool = False
    mood: str = ""

    def answer(self, received: Received) -> Reply:
        """Take a request, and return the answer."""
        reply = MOODS[self.mood] if self.mood else OK
        number = int(json.loads(received.body)["n"])
        if self.refuses_some and number % REFUSED_ONE_IN == 0:
            return REFUSED
        if reply.status < ACCEPTED and reply.delay < HANGS_S:
            self.account.deliver(number)
        return reply


class Endpoints(Subscriber):
    """All endpoints. A request for one that is not there any more is answered with 404."""

    def __init__(self) -> None:
        super().__init__(host=ANY_ADDRESS)
        self._by_path: dict[str, Endpoint] = {}
        self._made = 0
        self.requests = 0

    def add(self, endpoint: Endpoint) -> str:
        """Add an endpoint; return its URL, which has an address that no other one had."""
        self._made += 1
        path = f"/{endpoint.account.topic.name}/{endpoint.account.name}"
        self._by_path[path] = endpoint
        high, low = divmod(self._made, 250)
        return f"http://127.1.{high}.{low + 1}:{self.port}{path}"

    def remove(self, account: SubscriptionAccount) -> None:
        """Forget the endpoint of a subscription that is deleted."""
        del self._by_path[f"/{account.topic.name}/{account.name}"]

    def take(self, received: Received) -> Reply:
        self.requests += 1
        endpoint = self._by_path.get(received.path)
        return Reply(status=404) if endpoint is None else endpoint.answer(received)

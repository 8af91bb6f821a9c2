"""Retransmissions: messages are sent again to a subscription, at the same time as new messages."""

# Made from angelia_client/aio by `make client`: change it there.

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from uuid import uuid4

from angelia_client.errors import NotUnderstoodError
from angelia_client.replays import Replay, Retransmission
from angelia_client.requests import Request, creating, escaped, get, subscription_path
from angelia_client.sync.sending import Sender

_LOOK_EVERY: Final = timedelta(seconds=1)


class Retransmissions:
    """The methods of `client.retransmissions`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def request(self, topic: str, subscription: str, *, which: Replay) -> Retransmission:
        """Request that messages are sent again, at the same time as new messages.

        `which` says which messages are sent. A Spark job finds them.
        """
        path = f"{subscription_path(topic, subscription)}/retransmission"
        answer = self._sender.send(creating(path, which.as_body(), key=str(uuid4())))
        where = answer.headers.get("location")
        if where is None:
            raise NotUnderstoodError("The answer does not say where the retransmission is")
        return Retransmission.of(self._sender.json(get(where)))

    def all(self, topic: str, subscription: str) -> list[Retransmission]:
        """Return the newest retransmissions of a subscription."""
        answer = self._sender.send(get(_path(topic, subscription)))
        return [Retransmission.of(each) for each in answer.listed()]

    def get(self, topic: str, subscription: str, *, id_: str) -> Retransmission:
        """Return a retransmission.

        Raises:
            NotFoundError: The retransmission does not exist.
        """
        path = f"{_path(topic, subscription)}/{escaped(id_)}"
        return Retransmission.of(self._sender.json(get(path)))

    def cancel(self, topic: str, subscription: str, *, id_: str) -> Retransmission:
        """Cancel a retransmission.

        Messages that are not sent yet are dropped. Messages in flight are finished as usual.
        """
        path = f"{_path(topic, subscription)}/{escaped(id_)}"
        return Retransmission.of(self._sender.json(Request(method="DELETE", path=path)))

    def follow(
        self, topic: str, subscription: str, *, id_: str, every: timedelta = _LOOK_EVERY
    ) -> Iterator[Retransmission]:
        """Yield the state of the retransmission now, and then after each interval `every`.

        Stop when the retransmission has ended. The last yielded state is the final one.
        """
        while not (found := self.get(topic, subscription, id_=id_)).ended:
            yield found
            time.sleep(every.total_seconds())
        yield found


def _path(topic: str, subscription: str) -> str:
    return f"{subscription_path(topic, subscription)}/retransmissions"

"""Messages that subscriptions did not get: lists them, and sends them again."""

# Made from angelia_client/aio by `make client`: change it there.

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from angelia_client.discards import DiscardQuery, Redrive
from angelia_client.errors import NotFoundError
from angelia_client.messages import Redriven, Undelivered
from angelia_client.requests import creating, get, subscription_path, topic_path
from angelia_client.sync.sending import Sender

_ALL: Final = DiscardQuery()


class Discards:
    """The methods of `client.undelivered`."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(
        self, topic: str, subscription: str | None = None, *, query: DiscardQuery = _ALL
    ) -> Iterator[Undelivered]:
        """Yield discards, newest first: of one subscription, or of all subscriptions of a topic.

        The client requests each page only when the caller has used the page before.
        """
        where = topic_path(topic)
        if subscription is not None:
            where = subscription_path(topic, subscription)
        for found in self._sender.listed(get(f"{where}/undelivered", query.as_query())):
            yield Undelivered.of(found)

    def last(self, topic: str, subscription: str) -> Undelivered | None:
        """Return the newest discarded message of a subscription; None if there is none."""
        path = f"{subscription_path(topic, subscription)}/undelivered/last"
        try:
            return Undelivered.of(self._sender.json(get(path)))
        except NotFoundError as error:
            # An error without a code means that there is no discarded message. With a code, it
            # means that the topic or the subscription does not exist.
            if error.code:
                raise
            return None

    def redrive(
        self, topic: str, subscription: str, *, which: Redrive, dry_run: bool = False
    ) -> Redriven:
        """Send up to 1,000 discarded messages again.

        If `more` of the result is true, more messages are selected: repeat the call. With `dry_run`
        nothing is sent.
        """
        path = f"{subscription_path(topic, subscription)}/retransmission"
        body = which.as_body() | ({"dryRun": True} if dry_run else {})
        request = creating(path, body, key=str(uuid4()))
        return Redriven.of(self._sender.json(request))

    def redrive_all(self, topic: str, subscription: str, *, which: Redrive) -> Iterator[Redriven]:
        """Send again all messages that were discarded until now. Yield the result of each request.

        If `which.again` is true, there is only one request, because each request would select the
        same messages. Then `more` of the result says whether there are more messages.
        """
        # Select only messages that were discarded before now. Without this limit, messages that are
        # discarded again meanwhile would be sent again forever.
        before = replace(which, until=which.until or datetime.now(UTC))
        more = True
        while more:
            sent = self.redrive(topic, subscription, which=before)
            more = sent.more and sent.count > 0 and not which.again
            yield sent

"""Messages that subscriptions did not get: lists them, and sends them again."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from angelia_client.aio.sending import AsyncSender
from angelia_client.discards import DiscardQuery, Redrive
from angelia_client.errors import NotFoundError
from angelia_client.messages import Redriven, Undelivered
from angelia_client.requests import creating, get, subscription_path, topic_path

_ALL: Final = DiscardQuery()


class AsyncDiscards:
    """The methods of `client.undelivered`."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def all(
        self, topic: str, subscription: str | None = None, *, query: DiscardQuery = _ALL
    ) -> AsyncIterator[Undelivered]:
        """Yield discards, newest first: of one subscription, or of all subscriptions of a topic.

        The client requests each page only when the caller has used the page before.
        """
        where = topic_path(topic)
        if subscription is not None:
            where = subscription_path(topic, subscription)
        async for found in self._sender.listed(get(f"{where}/undelivered", query.as_query())):
            yield Undelivered.of(found)

    async def last(self, topic: str, subscription: str) -> Undelivered | None:
        """Return the newest discarded message of a subscription; None if there is none."""
        path = f"{subscription_path(topic, subscription)}/undelivered/last"
        try:
            return Undelivered.of(await self._sender.json(get(path)))
        except NotFoundError as error:
            # An error without a code means that there is no discarded message. With a code, it
            # means that the topic or the subscription does not exist.
            if error.code:
                raise
            return None

    async def redrive(
        self, topic: str, subscription: str, *, which: Redrive, dry_run: bool = False
    ) -> Redriven:
        """Send up to 1,000 discarded messages again.

        If `more` of the result is true, more messages are selected: repeat the call. With `dry_run`
        nothing is sent.
        """
        path = f"{subscription_path(topic, subscription)}/retransmission"
        body = which.as_body() | ({"dryRun": True} if dry_run else {})
        request = creating(path, body, key=str(uuid4()))
        return Redriven.of(await self._sender.json(request))

    async def redrive_all(
        self, topic: str, subscription: str, *, which: Redrive
    ) -> AsyncIterator[Redriven]:
        """Send again all messages that were discarded until now. Yield the result of each request.

        If `which.again` is true, there is only one request, because each request would select the
        same messages. Then `more` of the result says whether there are more messages.
        """
        # Select only messages that were discarded before now. Without this limit, messages that are
        # discarded again meanwhile would be sent again forever.
        before = replace(which, until=which.until or datetime.now(UTC))
        more = True
        while more:
            sent = await self.redrive(topic, subscription, which=before)
            more = sent.more and sent.count > 0 and not which.again
            yield sent

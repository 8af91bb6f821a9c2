"""Planted bugs of batches, broadcasts, OAuth and dead letters (`planted_bugs.py`)."""

from collections.abc import Mapping
from typing import Final

from tests.simulation.planted import Planted
from tests.simulation.planted import bug as _bug

_DISCARDS: Final = "workers.consumer.outcome.discard_handler"
_BATCHES: Final = "workers.consumer.source.batches"
_COLLECTED: Final = "workers.consumer.source.collected_batch"
_JOB: Final = "workers.consumer.schedule.delivery_job"
_BATCH: Final = "workers.delivery.batch"
_BROADCAST: Final = "workers.delivery.broadcast"
_BEARER: Final = "workers.delivery.oauth.bearer"
_AUTHORIZED: Final = "workers.delivery.oauth.destination"
_TOKENS: Final = "workers.delivery.oauth.source"

BUGS_OF_PARTS: Final[Mapping[str, Planted]] = {
    # ---- batches ------------------------------------------------------------------------------
    "put too many into a batch": _bug(
        "puts one message more into a batch than it may",
        _BATCHES,
        "is_full = len(self._open.pieces) >= self.batching.size",
        "is_full = len(self._open.pieces) > self.batching.size",
    ),
    "make a batch too large": _bug(
        "completes a batch only when it has more bytes than it may",
        _BATCHES,
        "        if self._open.pieces and self._open.volume_with(piece) > self.batching.volume:",
        "        if self._open.pieces and self._open.volume > self.batching.volume:",
    ),
    "send incomplete batches": _bug(
        "does not wait for more messages of a batch",
        _BATCHES,
        "        if self._open.due > self._clocks.monotonic():\n            return False\n",
        "",
    ),
    "read behind a batch": _bug(
        "reads a partition on while a batch of it is in delivery",
        _BATCHES,
        "        return cursor not in self._under_way\n",
        "        return True\n",
    ),
    "send two batches of a partition": _bug(
        "sends a batch of a partition while another one is in delivery",
        _BATCHES,
        "        if piece.opened.cursor in self._under_way:\n",
        "        if False:\n",
    ),
    "send batches of lost partitions": _bug(
        "does not take messages of lost partitions out of batches",
        _COLLECTED,
        "        left = [each for each in self.opened if each.cursor not in cursors]\n",
        "        left = list(self.opened)\n",
    ),
    "finish only the first of a batch": _bug(
        "finishes only the first message of a delivered batch",
        _JOB,
        "        for opened in self.batch.opened:\n            opened.cursor.delivered(",
        "        for opened in self.batch.opened[:1]:\n            opened.cursor.delivered(",
    ),
    "discard only the first of a batch": _bug(
        "records only the first message of a discarded batch",
        _JOB,
        "        for opened in self.batch.opened:\n            job = DeliveryJob(",
        "        for opened in self.batch.opened[:1]:\n            job = DeliveryJob(",
    ),
    "give batches the same id": _bug(
        "makes the id of a batch from its first message only",
        _BATCH,
        "for message in messages\n        )\n        named",
        "for message in messages[:1]\n        )\n        named",
    ),
    # ---- broadcasts ---------------------------------------------------------------------------
    "send to one address": _bug(
        "sends a broadcast to the first address only",
        _BROADCAST,
        "        if len(addresses) > ADDRESSES_MAX:\n",
        "        addresses = addresses[:1]\n        if len(addresses) > ADDRESSES_MAX:\n",
    ),
    "retry at all addresses": _bug(
        "retries a broadcast also at addresses that have accepted it",
        _BROADCAST,
        "left = [address for address in addresses if address not in done]",
        "left = list(addresses)",
    ),
    "take one acceptance for all": _bug(
        "takes a broadcast for delivered when one address has accepted it",
        _BROADCAST,
        "    if not failures:\n        return next(iter(outcomes.values()))\n",
        "    accepted = [each for each in outcomes.values() if isinstance(each, Delivered)]\n"
        "    if accepted:\n        return accepted[0]\n",
    ),
    "forget other addresses' Retry-After": _bug(
        "waits for the Retry-After of the first address that fails only",
        _BROADCAST,
        "retry_after=max((each.retry_after for each in retries if each.retry_after), default=None)",
        "retry_after=retries[0].retry_after",
    ),
    # ---- tokens -------------------------------------------------------------------------------
    "use expired tokens": _bug(
        "uses a token until there is another one",
        _BEARER,
        " or token.serial <= self._refused or now >= token.ends_at:",
        " or token.serial <= self._refused:",
    ),
    "send without a token": _bug(
        "sends messages without a token if it gets none",
        _AUTHORIZED,
        "            return self._no_token()\n",
        "            return await self._inner.attempt(message, retry_count=retry_count)\n",
    ),
    "discard at the first 401": _bug(
        "discards a message when its first token is refused",
        _AUTHORIZED,
        "            if self.bearer.refused(token, message, time.monotonic()):\n",
        "            if False:\n",
    ),
    "ask for tokens at once": _bug(
        "asks for a token again at once after a failure",
        _TOKENS,
        "        if self.requesting_since is None and now >= self.paused_until:\n",
        "        if self.requesting_since is None:\n",
    ),
    # ---- dead letters -------------------------------------------------------------------------
    "discard without a dead letter": _bug(
        "copies no discarded message to the dead-letter topic",
        _DISCARDS,
        "        if subscription.dead_letter is None:\n",
        "        if True:\n",
    ),
    "record before the dead letter": _bug(
        "records a discard before the dead-letter topic has its copy",
        _DISCARDS,
        "        if not await self._lettered(job, discarded, record):\n            return\n"
        "        await self._parts.undelivered.write(record)\n",
        "        await self._parts.undelivered.write(record)\n"
        "        if not await self._lettered(job, discarded, record):\n            return\n",
    ),
}

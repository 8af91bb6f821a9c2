"""Bugs that can be planted in the product's code. The checker must find each within 1,000 seeds.

A bug is a replacement of a text that occurs once in the source of a module. The text is as short as
possible. If a change of the product affects it, the text is not found, and a test fails. This
module imports nothing of the product.
"""

from collections.abc import Mapping
from typing import Final

from tests.simulation.loader import Replacement
from tests.simulation.planted import Planted
from tests.simulation.planted import bug as _bug
from tests.simulation.planted_in_parts import BUGS_OF_PARTS

_CURSOR: Final = "workers.consumer.commit.cursor"
_OFFSETS: Final = "workers.consumer.commit.offsets"
_COMMITTER: Final = "workers.consumer.commit.committer"
_CONSUMER: Final = "workers.consumer.subscription_consumer"
_CONSUMERS: Final = "workers.consumer.subscription_consumers"
_RESPONSES: Final = "workers.consumer.outcome.response_handler"
_DISCARDS: Final = "workers.consumer.outcome.discard_handler"
_SCHEDULER: Final = "workers.consumer.schedule.scheduler"
_QUEUE: Final = "workers.consumer.schedule.retry_queue"
_SOURCE: Final = "workers.consumer.source.message_source"
_FEED: Final = "workers.retransmission.feed"
_ORDER: Final = "workers.consumer.source.order"
_SUPERVISOR: Final = "workers.assignment.supervisor"
_STARTS: Final = "workers.assignment.start_positions"
_RETRACTIONS: Final = "workers.assignment.retractions"
_RECORDER: Final = "workers.recorder.recorder"
_PACE: Final = "workers.delivery.pace"
_RATE: Final = "workers.delivery.rate"
_DEFERRAL: Final = "workers.delivery.deferral"
_CLASSES: Final = "workers.delivery.classification"
_CONNECTION: Final = "workers.transport.connection"
_TRACE: Final = "workers.consumer.outcome.subscription_trace"
_BUFFER: Final = "app.tracing.buffer"

PLANTED: Final[Mapping[str, Planted]] = {
    # ---- commits ------------------------------------------------------------------------------
    "commit early": _bug(
        "commits past open messages",
        _OFFSETS,
        "offset = min(self._opened, default=self.position)\n        opened_ms",
        "offset = self.position\n        opened_ms",
    ),
    "open after sending": _bug(
        "does not keep a message open while it is sent",
        _OFFSETS,
        "        self._opened[offset] = now_ms\n        self.room -= 1",
        "        self.room -= 1",
    ),
    "close before recording": _bug(
        "closes a discard before it is recorded",
        _DISCARDS,
        "        await self._parts.undelivered.write(record)\n        # Close",
        "        job.cursor.discarded(job.message, discarded)\n"
        "        await self._parts.undelivered.write(record)\n        return\n        # Close",
    ),
    "forget a failed commit": _bug(
        "takes a failed commit for a successful one",
        _COMMITTER,
        "                cursor.commit_failed(failed[key])",
        "                cursor.commit_done(progress)",
    ),
    "forget finished offsets": _bug(
        "sends again what a commit says is finished above its offset",
        _OFFSETS,
        "finished: list[tuple[int, int]] = list(start.finished)",
        "finished: list[tuple[int, int]] = []",
    ),
    "leave finished offsets out": _bug(
        "does not commit what is finished above the oldest unfinished message",
        _OFFSETS,
        "finished=fitting(offset, self._finished_above()),",
        "finished=(),",
    ),
    "forget attempts": _bug(
        "does not carry attempts on to the next owner",
        _OFFSETS,
        "self.attempts: dict[int, int] = dict(start.attempts)",
        "self.attempts: dict[int, int] = {}",
    ),
    "no last commit": _bug(
        "does not commit when a cursor is closed",
        _CONSUMERS,
        "        await self._committer.finish(halted, commit_timeout)\n",
        "",
    ),
    "count twice": _bug(
        "counts a delivery twice",
        _CURSOR,
        "        self._offsets.discarded += 1\n",
        "        self._offsets.discarded += 1\n        self._offsets.delivered += 1\n",
    ),
    "commit after losing": _bug(
        "commits for partitions that another worker owns",
        _CURSOR,
        "        self.abandoned = True\n",
        "        self.abandoned = False\n",
    ),
    # ---- discards -----------------------------------------------------------------------------
    "skip a retraction": _bug(
        "does not retract discards that were not committed",
        _RETRACTIONS,
        "        if retraction.offset < bound.end:\n",
        "        if False:\n",
    ),
    "discard without an epoch": _bug(
        "records discards before their epoch is committed",
        _DISCARDS,
        "        if not cursor.producer_epoch:\n",
        "        if False:\n",
    ),
    "drop a discard": _bug(
        "finishes a discarded message without a record of it",
        _DISCARDS,
        "        await self._parts.undelivered.write(record)\n        # Close",
        "        # Close",
    ),
    "record twice": _bug(
        "stores records of the stream that are stored already",
        _RECORDER,
        "            self._next[partition] = max(self._next[partition], next_offset)\n",
        "            pass\n",
    ),
    "skip records": _bug(
        "skips records of the stream when the database fails, and never looks back",
        _RECORDER,
        "                await asyncio.sleep(self._retry_pause.total_seconds())\n"
        "            else:\n"
        "                if stored is not None and stored < start:\n",
        "                self._advance(partition, next_offset)\n"
        "                return\n"
        "            else:\n"
        "                if False:\n",
    ),
    # ---- retries ------------------------------------------------------------------------------
    "lose a retry": _bug(
        "forgets a message that must be retried, and never finishes it",
        _RESPONSES,
        "        self._retry_queue.add(job, due)\n",
        "        if job.attempts != 2:\n            self._retry_queue.add(job, due)\n",
    ),
    "drop a retry": _bug(
        "takes a failed retry for a delivery",
        _RESPONSES,
        "            case Retry():\n                return self._retry(job, outcome)",
        "            case Retry():\n                if job.attempts > 2:\n"
        "                    job.delivered()\n                    return None\n"
        "                return self._retry(job, outcome)",
    ),
    "retry too early": _bug(
        "retries before the backoff is over",
        _RESPONSES,
        "due = now + self._delay(job, outcome).total_seconds()",
        "due = now + self._delay(job, outcome).total_seconds() / 2",
    ),
    "one attempt too many": _bug(
        "tries once more than it may",
        _RESPONSES,
        "job.attempts > retries_max:",
        "job.attempts > retries_max + 1:",
    ),
    "live for ever": _bug(
        "retries after the time to live",
        _SCHEDULER,
        "            return at > job.deadline\n",
        "            return False\n",
    ),
    "keep retries on revoke": _bug(
        "retries messages of partitions that it gave away",
        _CONSUMER,
        "        self._retry_queue.remove(lambda job: job.leave(cursors))\n",
        "",
    ),
    "overfill the buffer": _bug(
        "takes new messages although the retry buffer is full",
        _SCHEDULER,
        "        while not (self._waits_for_room and self.is_full):\n",
        "        while True:\n",
    ),
    # ---- answers ------------------------------------------------------------------------------
    "take redirects for deliveries": _bug(
        "takes 3xx for a delivery",
        _CLASSES,
        "    if 200 <= status < 300:",
        "    if 200 <= status < 400:",
    ),
    "retry refusals": _bug(
        "retries what was refused for good",
        _CLASSES,
        "    if _is_final(status, subscription):",
        "    if False:",
    ),
    "discard server errors": _bug(
        "discards what failed for now",
        _CLASSES,
        "    if _is_final(status, subscription):",
        "    if _is_final(status, subscription) or status == 500:",
    ),
    "ignore Retry-After": _bug(
        "ignores Retry-After",
        _CLASSES,
        "    delay = requested_delay(answer, now)\n",
        "    delay = None\n",
    ),
    "defer one message only": _bug(
        "defers the message, and not its subscription",
        _DEFERRAL,
        "        self._quiet_until = max(self._quiet_until, now + seconds)\n",
        "",
    ),
    "take a broken answer for one": _bug(
        "takes a connection that ends without an answer for a delivery",
        "workers.transport.answer",
        "        if not self._received:\n            raise",
        "        if not self._received:\n            self._status = 200\n            return\n"
        "            raise",
    ),
    "use a connection twice": _bug(
        "forgets that a request is in flight when its time is over",
        _CONNECTION,
        "        if self._exchange is None:\n            self.close()\n        else:",
        "        if True:\n            self.close()\n        else:",
    ),
    # ---- rate and limits ----------------------------------------------------------------------
    "send too fast": _bug(
        "lets more through than the rate in a second",
        _RATE,
        "        if len(sent) >= self._per_window:\n            ready = max(",
        "        if len(sent) >= 2 * self._per_window:\n            ready = max(",
    ),
    "send late": _bug(
        "sends what waited for its connection although it may not be sent any more",
        "workers.transport.exchange",
        "        if self.may_start is None or self.may_start():\n",
        "        if True:\n",
    ),
    "forget to count": _bug(
        "does not count a request against the rate",
        _PACE,
        "        self._limiter.sent(now)\n",
        "",
    ),
    "use the whole rate": _bug(
        "lets each worker use the whole rate",
        _PACE,
        "        if self._rate <= 0:\n            return min",
        "        if False:\n            return min",
    ),
    "too many in flight": _bug(
        "has one request more in flight than it may",
        _CONSUMER,
        "while not self._stopped and self.in_flight < self._in_flight_max:",
        "while not self._stopped and self.in_flight <= self._in_flight_max:",
    ),
    # ---- order --------------------------------------------------------------------------------
    "forget the order of keys": _bug(
        "does not let a message wait for one with its key",
        _ORDER,
        "        lane.behind.append(opened)\n        self.waiting += 1\n"
        "        self._behind_failing += lane.failing\n        return None",
        "        return opened",
    ),
    "pass failing messages": _bug(
        "lets a partition go on when a message of it fails",
        _ORDER,
        '        """Do nothing: the message stays in delivery."""\n',
        "        self._under_way.pop(cursor, None)\n",
    ),
    "lose what waits for a key": _bug(
        "forgets messages that wait for one with their key",
        _ORDER,
        "        following = lane.behind.popleft()\n        lane.head",
        "        following = lane.behind.popleft()\n        if failed and lane.behind:\n"
        "            following = lane.behind.popleft()\n        lane.head",
    ),
    # ---- traces -------------------------------------------------------------------------------
    "trace no discards": _bug(
        "does not trace discards",
        _DISCARDS,
        "        if self.trace is not None:\n            self.trace.discarded(job, discarded)\n",
        "",
    ),
    "trace one attempt for another": _bug(
        "gives each attempt the number of the one before",
        _TRACE,
        "                attempts + 1,\n",
        "                max(attempts, 1),\n",
    ),
    "trace failures as successes": _bug(
        "traces an attempt that failed as a success",
        _TRACE,
        "        if not isinstance(outcome, Delivered):\n            status, reason",
        "        if outcome.status is None:\n            status, reason",
    ),
    "drop traces": _bug(
        "drops entries that the log did not accept",
        _BUFFER,
        "            self._fall_behind()\n            return False",
        "            self._packed.popleft()\n"
        "            self._packed_entries -= some[0].entries\n"
        "            self._gone += some[0].entries\n"
        "            self._fall_behind()\n            return False",
    ),
    "commit before traces": Planted(
        "commits before the traces are in the log, to which it appends them late",
        [
            Replacement(
                _COMMITTER,
                "                await self._traces.until_appended(hold)\n",
                "                pass\n",
            ),
            Replacement(_BUFFER, "timedelta(milliseconds=100)", "timedelta(seconds=2)"),
        ],
    ),
    # ---- counts for ledgers -------------------------------------------------------------------
    "count deliveries late": _bug(
        "commits a delivery, and counts it only when nothing is open any more",
        _OFFSETS,
        "            delivered=self.delivered,\n",
        "            delivered=self.delivered if not self._opened else self._start.delivered,\n",
    ),
    "count what is open": _bug(
        "counts a message as delivered while it is sent",
        _OFFSETS,
        "            delivered=self.delivered,\n",
        "            delivered=self.delivered + len(self._opened),\n",
    ),
    "count discards late": _bug(
        "commits a discard, and counts it only when nothing is open any more",
        _OFFSETS,
        "            discarded=self.discarded,\n",
        "            discarded=self._start.discarded if self._opened else self.discarded,\n",
    ),
    # ---- retransmissions ----------------------------------------------------------------------
    "send again to all": _bug(
        "gives messages that are sent again to every subscription",
        _SOURCE,
        "record_target is None or record_target.subscription_id != cursor.subscription_id:",
        "record_target is None:",
    ),
    "do not read back": _bug(
        "does not look for messages that another worker appended and did not record",
        _FEED,
        "        await self._read_back()\n",
        "",
    ),
    "use the whole rate for retransmissions": _bug(
        "sends messages again at the whole rate of a subscription",
        "app.domain.replay.retransmission",
        "    shared = rate * share\n",
        "    shared = rate\n",
    ),
    "append far ahead": _bug(
        "appends any number of messages that are not finished",
        "app.domain.replay.sending_rate",
        "        return max(0, min(int(self._allowed), ahead_max(pace) - ahead))",
        "        return int(self._allowed)",
    ),
    "skip a chosen message": _bug(
        "skips a chosen message after each that it appends",
        "workers.retransmission.source",
        "            found[-1].offset + 1 if cut else",
        "            found[-1].offset + 2 if cut else",
    ),
    "end too early": _bug(
        "ends a retransmission when all is appended, and not when all is finished",
        _FEED,
        "        while self._unfinished or not all_read:\n",
        "        while not all_read:\n",
    ),
    "go on after a cancellation": _bug(
        "appends messages of a cancelled retransmission",
        _FEED,
        *(
            "        if not await self._store.keep(self._sending, finished, LEASE):\n",
            "        if not await self._store.keep(self._sending, finished, LEASE) and False:\n",
        ),
        *(
            "        if not await self._store.record(self._sending, sent):\n",
            "        if not await self._store.record(self._sending, sent) and False:\n",
        ),
    ),
    "deliver what was cancelled": _bug(
        "delivers messages of a cancelled retransmission",
        _SOURCE,
        "        if record_target.job_id in self._dropped:\n",
        "        if False:\n",
    ),
    # ---- owners and operators -----------------------------------------------------------------
    "keep what was lost": _bug(
        "delivers partitions on that it lost",
        _SUPERVISOR,
        "                abandon(self._consumers.halt(self._open_in(event.partitions)))\n",
        "",
    ),
    "release at once": _bug(
        "lets others have a partition before its requests have ended",
        _SUPERVISOR,
        "        closing = {key for key in self._closing if key.partition in event.partitions}\n",
        "        closing = set()\n        event.release()\n",
    ),
    "deliver when suspended": _bug(
        "does not close the cursors of suspended subscriptions",
        _SUPERVISOR,
        "        self._close(self._consumers.keys() - wanted)\n",
        "        self._close({k for k in self._consumers.keys() - wanted"
        " if k.partition not in self.owned})\n",
    ),
    "answer before applying": _bug(
        "says that changes are in effect before they are",
        "workers.assignment.changes",
        "        self._target.apply(changes)\n",
        "        if changes.number % 3:\n            self._target.apply(changes)\n",
    ),
    "start at the end": _bug(
        "starts at the commit of another incarnation",
        _STARTS,
        "            progress = parse_progress(subscription.id, there.offset, there.metadata)\n"
        "            if progress is None:",
        "            progress = Progress(subscription_id=subscription.id, offset=there.offset)\n"
        "            if progress is None:",
    ),
    "forget a seek": _bug(
        "does not go where it was moved",
        _STARTS,
        "            start = sought(progress, subscription.seek, partition=partition.index)\n",
        "            start = progress\n",
    ),
    "ignore filters": _bug(
        "sends what the filters do not let pass",
        _SOURCE,
        "            self._chain = self._chain_of(filters) if filters else None\n",
        "            self._chain = None\n",
    ),
    # ---- a database that fails over -----------------------------------------------------------
    "keep what is not there": _bug(
        "keeps subscriptions that the new server of the database does not have",
        _SUPERVISOR,
        "        changes = self.registry.with_deletions(changes)\n",
        "",
    ),
    "report no positions again": _bug(
        "does not report positions again that the new server of the database does not have",
        _SUPERVISOR,
        "            self._consumers.report_all()\n",
        "",
    ),
    "never record again": _bug(
        "does not record again what the new server of the database does not have",
        _RECORDER,
        "            self._tail.follow(partition, stored)\n",
        "",
    ),
    "record again too late": _bug(
        "records again only when something new is recorded",
        _SUPERVISOR,
        "            self._recorder.check()\n",
        "",
    ),
    "give the number of a lost move": _bug(
        "gives a move the number of another one, which the new server does not have",
        "app.domain.catalogue.seek",
        "number=now_ms if last is None else max(now_ms, last.number + 1)",
        "number=1 if last is None else last.number + 1",
    ),
    "acknowledge too early": _bug(
        "answers 201 although the log did not acknowledge",
        "app.services.publishing.publisher",
        "            self._writability.failed(_LATE)\n            return _unavailable(_LATE)",
        "            return None",
    ),
    "acknowledge failures": _bug(
        "answers 201 although the log failed",
        "app.services.publishing.publisher",
        "            self._writability.failed(unavailable.message)\n            return unavailable",
        "            return None",
    ),
    **BUGS_OF_PARTS,
}

"""Commits offsets from the event loop. All groups of a coordinator use one connection.

Commits do not use another thread, because switching threads for each commit would delay deliveries.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.deadlines import CallDeadline
from app.log.interface import Committed
from app.log.kafka.caller import Callers, Frame
from app.log.kafka.client import (
    FAILED_TRY,
    RETRY_S,
    STALE_COORDINATOR_CODES,
    NotSentError,
    reason,
)
from app.log.kafka.coordinators import Coordinators
from app.log.kafka.credentials import KafkaCredentials
from app.log.kafka.protocol.commits import at_once, commit_frame, read_commit
from app.log.kafka.protocol.wire import MalformedAnswerError

COMMIT_TIMEOUT: Final = timedelta(seconds=3)
# How long a commit waits for the results of the other groups after it has the results of some
# groups. After this time, the commit ends. The caller then commits the other groups again, with
# newer positions.
OTHERS_WAIT: Final = timedelta(seconds=0.5)
# The maximum number of requests in flight to one coordinator. Requests that are sent together take
# half as much time as requests that are sent one by one.
IN_FLIGHT_MAX: Final = 64

_CLIENT: Final = "angelia-commits"
_LOADING: Final = 14
_UNKNOWN_MEMBER: Final = 25
_FAILED_ASK: Final = (*FAILED_TRY, LogUnavailableError, MalformedAnswerError)
# An attempt that began within the time limit may last longer than the limit: up to the limit
# multiplied by this factor. So its response is not lost.
_LATE: Final = 4 / 3

Offsets = Mapping[Partition, Committed]
Failures = dict[tuple[str, Partition], str]


class Committing:
    """Commits offsets for Kafka groups that have no members, over separate connections.

    Group names include the namespace.
    """

    def __init__(
        self,
        coordinators: Coordinators,
        *,
        credentials: KafkaCredentials,
        timeout: timedelta = COMMIT_TIMEOUT,
        may_commit: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create a `Committing`.

        `may_commit` is called before each attempt. It returns whether the partitions may still
        belong to this process.
        """
        self._coordinators = coordinators
        self._timeout = timeout
        self._may_commit = may_commit
        self._patience = CallDeadline(OTHERS_WAIT)
        self._callers = Callers(
            coordinators.address, credentials=credentials, answer_timeout=timeout
        )

    async def commit(self, groups: Mapping[str, Offsets]) -> Failures:
        """Commit the offsets of all groups; return the groups that failed, with the reason.

        This takes about `timeout` at most. A commit reported as failed may still be applied, unless
        its coordinator refused it.
        """
        commit = _Commit(self._coordinators, self._callers, groups, patience=self._patience)
        await commit.run(self._timeout.total_seconds(), self._may_commit)
        return commit.failures

    def close(self) -> None:
        """Close the connections; running commits fail."""
        self._callers.close()


class _Commit:
    """One call of `Committing.commit`.

    The call repeats the commits that coordinators did not accept, until its time is over.
    """

    def __init__(
        self,
        coordinators: Coordinators,
        callers: Callers,
        groups: Mapping[str, Offsets],
        *,
        patience: CallDeadline,
    ) -> None:
        """Create a `_Commit`.

        `patience` limits how long the call waits for the other groups, after some groups have a
        result.
        """
        self._coordinators = coordinators
        self._callers = callers
        self._left = {group: dict(offsets) for group, offsets in groups.items()}
        self._patience = patience
        self._limit = asyncio.timeout(None)
        # For each group, the reason why the group is not committed yet, if the reason is known.
        self._causes: dict[str, object] = {}
        self.failures: Failures = {}

    async def run(self, seconds: float, may_commit: Callable[[], bool]) -> None:
        """Commit until each group has a result, or until `may_commit` returns False.

        After about `seconds`, all groups without a result count as failed.
        """
        now = asyncio.get_running_loop().time
        self._end = now() + seconds
        try:
            async with self._limit:
                self._limit.reschedule(now() + seconds * _LATE)
                await self._until_decided(may_commit)
        except TimeoutError:
            pass  # the remaining groups fail below
        finally:
            self._patience.end(self)
        for group, left in self._left.items():
            cause = self._causes.get(group, "no answer")
            self._fail(group, left, f"Kafka did not answer in time: {cause}")

    async def _until_decided(self, may_commit: Callable[[], bool]) -> None:
        while self._left and not self._callers.closed:
            if not may_commit():
                self._fail_all("others may own its partition by now")
                return
            await self._try()
            if self._is_late(RETRY_S):
                return
            if self._left:
                await asyncio.sleep(RETRY_S)

    def _is_late(self, seconds: float = 0) -> bool:
        return asyncio.get_running_loop().time() + seconds >= self._end

    async def _try(self) -> None:
        """Send the commits of all groups without a result once.

        The requests to all coordinators are sent at the same time.
        """
        nodes, unknown = self._coordinators.grouped(self._left)
        async with asyncio.TaskGroup() as asking:
            for node, groups in nodes.items():
                asking.create_task(self._ask(node, groups))
            if unknown:
                asking.create_task(self._look(unknown))

    async def _look(self, groups: Collection[str]) -> None:
        """Look up the coordinators of these groups. Commit the groups that have a coordinator."""
        try:
            refused = await self._coordinators.look(groups)
        except _FAILED_ASK as error:
            self._causes.update(dict.fromkeys(groups, error))
            return
        for group, code in refused.items():
            self._fail(group, self._left.pop(group, ()), reason(code))
        found = [group for group in groups if group not in refused]
        nodes, unknown = self._coordinators.grouped(found)
        self._causes.update(dict.fromkeys(unknown, "its coordinator is not available"))
        async with asyncio.TaskGroup() as asking:
            for each in nodes.items():
                asking.create_task(self._ask(*each))

    async def _ask(self, node: int, groups: Sequence[str]) -> None:
        """Send the commits of `groups` to one broker, at most IN_FLIGHT_MAX requests at a time."""
        for start in range(0, len(groups), IN_FLIGHT_MAX):
            if self._is_late():
                return  # send no more groups, because the coordinator did not respond
            some = groups[start : start + IN_FLIGHT_MAX]
            try:
                answers = await self._callers.of(node).ask_all(map(self._frame, some))
            except NotSentError as error:
                self._coordinators.forget(groups[start:])
                self._causes.update(dict.fromkeys(groups[start:], error))
                return
            try:
                for group, answer in zip(some, answers, strict=True):
                    await self._receive(group, answer)
            finally:
                _drop(answers)

    def _frame(self, group: str) -> Frame:
        # Send only as many positions of the group as fit into one request. The group's other
        # positions follow in another request.
        offsets = at_once(group, self._left[group])
        return partial(commit_frame, group=group, offsets=offsets, client=_CLIENT)

    async def _receive(self, group: str, answer: asyncio.Future[bytes]) -> None:
        """Read the response for one group.

        Positions that now have a result are not sent again.
        """
        try:
            codes = read_commit(await answer)
        except _FAILED_ASK as error:
            self._causes[group] = error
            self._coordinators.forget([group])
        else:
            self._decide(group, codes)

    def _decide(self, group: str, codes: Mapping[Partition, int]) -> None:
        left, requested = self._left[group], len(self._left[group])
        stale = STALE_COORDINATOR_CODES.intersection(codes.values())
        for partition, code in codes.items():
            if code not in stale and left.pop(partition, None) is not None and code:
                self._fail(group, [partition], _failure(code))
        if stale - {_LOADING}:
            self._coordinators.forget([group])
        if len(left) < requested:
            self._be_patient()
        if left:
            self._causes[group] = reason(min(stale)) if stale else "a partition had no answer"
        else:
            del self._left[group]

    def _be_patient(self) -> None:
        self._patience.end(self)
        self._patience.begin(self, self._give_up)

    def _give_up(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(0)

    def _fail_all(self, why: str) -> None:
        for group, left in self._left.items():
            self._fail(group, left, why)
        self._left.clear()

    def _fail(self, group: str, partitions: Iterable[Partition], why: str) -> None:
        self.failures.update({(group, each): why for each in partitions})


def _drop(answers: Iterable[asyncio.Future[bytes]]) -> None:
    """Ignore the responses to these requests, because no caller waits for them any more."""
    for answer in answers:
        if not answer.cancel() and not answer.cancelled():
            answer.exception()  # mark the error as read, so that asyncio does not report it


def _failure(code: int) -> str:
    if code == _UNKNOWN_MEMBER:
        return "the group has members of its own, which alone may commit"
    return reason(code)

"""Commits, from the event loop: all groups of a coordinator by one connection, one after the other.

Without a thread in between, which would take the interpreter from the deliveries at each turn.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from app.domain.errors import LogUnavailableError
from app.domain.message import Partition
from app.log.interface import Committed
from app.log.kafka.caller import Callers, Frame
from app.log.kafka.client import (
    FAILED_TRY,
    RETRY_S,
    STALE_COORDINATOR_CODES,
    NotSentError,
    reason,
)
from app.log.kafka.commit_wire import commit_frame, read_commit
from app.log.kafka.coordinators import Coordinators
from app.log.kafka.wire import MalformedAnswerError

COMMIT_TIMEOUT: Final = timedelta(seconds=3)
# Written together and answered together, a request costs half of one by itself.
IN_FLIGHT_MAX: Final = 64

_CLIENT: Final = "angelia-commits"
_UNKNOWN_MEMBER: Final = 25
_FAILED_ASK: Final = (*FAILED_TRY, LogUnavailableError, MalformedAnswerError)

Offsets = Mapping[Partition, Committed]
Failures = dict[tuple[str, Partition], str]


class Committing:
    """Commits for groups that have no members, over connections of its own. Full names."""

    def __init__(self, coordinators: Coordinators, *, timeout: timedelta = COMMIT_TIMEOUT) -> None:
        self._coordinators = coordinators
        self._timeout = timeout
        self._callers = Callers(coordinators.address, answer_timeout=timeout)

    async def commit(self, groups: Mapping[str, Offsets]) -> Failures:
        """Commit all of them within `timeout`; what failed, and why."""
        end = time.monotonic() + self._timeout.total_seconds()
        commit = _Commit(self._coordinators, self._callers, groups, end=end)
        await commit.run()
        return commit.failures

    def close(self) -> None:
        """Close the connections; commits under way fail."""
        self._callers.close()


class _Commit:
    """One call of `commit`: what coordinators did not take, again, until `end`."""

    def __init__(
        self,
        coordinators: Coordinators,
        callers: Callers,
        groups: Mapping[str, Offsets],
        *,
        end: float,
    ) -> None:
        self._coordinators = coordinators
        self._callers = callers
        self._left = {group: dict(offsets) for group, offsets in groups.items()}
        self._end = end
        self.failures: Failures = {}

    async def run(self) -> None:
        """Until all is decided; what is not in time has failed."""
        while self._left:
            cause = await self._try()
            self._coordinators.forget(self._left)
            if self._left and time.monotonic() + RETRY_S >= self._end:
                return self._fail(f"Kafka did not answer in time: {cause}")
            if self._left:
                await asyncio.sleep(RETRY_S)
        return None

    async def _try(self) -> object:
        """All that is left once, by all coordinators at a time. Returns why some of it still is."""
        try:
            nodes = await self._coordinators.grouped(list(self._left))
        except _FAILED_ASK as error:
            return error
        async with asyncio.TaskGroup() as asking:
            tasks = [asking.create_task(self._ask(*each)) for each in nodes.items()]
        causes = [cause for task in tasks if (cause := task.result()) is not None]
        return causes[0] if causes else "a coordinator is not available"

    async def _ask(self, node: int, groups: Sequence[str]) -> object | None:
        """A broker has at most IN_FLIGHT_MAX requests to answer."""
        cause: object | None = None
        for start in range(0, len(groups), IN_FLIGHT_MAX):
            if time.monotonic() >= self._end:
                break  # it was silent: the rest is not even tried
            some = groups[start : start + IN_FLIGHT_MAX]
            try:
                answers = await self._callers.of(node).ask_all(map(self._frame, some))
            except NotSentError as error:
                return error
            said = await asyncio.gather(*answers, return_exceptions=True)
            for group, answer in zip(some, said, strict=True):
                cause = self._heard(group, answer) or cause
        return cause

    def _frame(self, group: str) -> Frame:
        return partial(commit_frame, group=group, offsets=self._left[group], client=_CLIENT)

    def _heard(self, group: str, answer: bytes | BaseException) -> object | None:
        """Take what is decided out of what is left. Returns why the rest is not."""
        if isinstance(answer, BaseException):
            if isinstance(answer, _FAILED_ASK):
                return answer
            raise answer
        try:
            codes = read_commit(answer)
        except MalformedAnswerError as error:
            return error
        return self._decided(group, codes)

    def _decided(self, group: str, codes: Mapping[Partition, int]) -> object | None:
        left, cause = self._left[group], None
        for partition, code in codes.items():
            if code in STALE_COORDINATOR_CODES:
                cause = reason(code)
            elif left.pop(partition, None) is not None and code:
                self.failures[group, partition] = _failure(code)
        if not left:
            del self._left[group]
            return None
        return cause or "a partition was left unanswered"

    def _fail(self, why: str) -> None:
        for group, left in self._left.items():
            self.failures.update({(group, each): why for each in left})


def _failure(code: int) -> str:
    if code == _UNKNOWN_MEMBER:
        return "the group has members of its own, which alone may commit"
    return reason(code)

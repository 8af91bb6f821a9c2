"""Runs a plan from its beginning until everything is finished."""

import asyncio
import gc
import sys
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.fakes.replica import replica_of
from tests.simulation.faults import DATABASE, Faults
from tests.simulation.history import Complained, Counted, Ended, Fault, History
from tests.simulation.operators import Operators
from tests.simulation.plan import LAG_MAX_S, Act, Plan
from tests.simulation.resends import resends_ended
from tests.simulation.trace_entries import traced
from tests.simulation.virtual_loop import START_S, SimulationStuckError, VirtualLoop, passes
from tests.simulation.world import World

# The time in seconds in which everything must be finished after the last fault.
DRAIN_MAX_S: Final = 900.0
LOOK_S: Final = 0.5
# The time in seconds that workers have to notice that faults have ended.
CALM_S: Final = 1.0
# The wait for the last reports of counts, in seconds. Workers report every second, and repeat a
# lost report.
REPORT_S: Final = 3.0
# The maximum time in seconds of an orderly stop.
STOP_MAX_S: Final = 60.0


def simulate(plan: Plan) -> History:
    """Return the history of a run of `plan`. The same plan and code give the same history."""
    history = History()
    loop = VirtualLoop(Random(f"run {plan.seed}"))
    # Switch the garbage collector off: when it runs depends on earlier runs.
    gc.disable()
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        loop.run_until_complete(_Run(plan, loop, history).run())
    except SimulationStuckError as stuck:
        history.add(Complained(at=loop.time(), process="", what=f"stuck: {stuck}"))
    finally:
        for failure in loop.failures:
            history.add(Complained(at=loop.time(), process="", what=failure))
        history.closed = True
        loop.finish()
        # Remove the objects of dead processes now, while their clean-up can have no effect.
        del loop
        gc.collect()
        sys.unraisablehook = before
        gc.enable()
    return history


class _Run:
    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        self._plan = plan
        self._loop = loop
        self._history = history
        self._world = World(plan, loop, history)
        self._faults = Faults(self._world)
        self._operators = Operators(self._world)
        self._acting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run the plan, end the remaining faults, and wait until everything is finished."""
        await self._begin()
        for message in self._plan.messages:
            self._loop.call_outside(message.at, self._world.publish, message)
        for act in self._plan.acts:
            if act.what == "failover":
                self._loop.call_outside(act.at - _lag_s(act), self._fall_behind, act)
            else:
                self._loop.call_outside(act.at, self._act, act)
        await passes(self._storm_s())
        # End the remaining faults, and let changes that are still waiting complete.
        self._faults.heal()
        await self._until_changed()
        left = await self._drain()
        await passes(REPORT_S)
        await self._stop()
        self._count()
        for entry in (*traced(self._world), *resends_ended(self._world)):
            self._history.add(entry)
        self._history.add(Ended(at=self._loop.time(), left=tuple(left)))

    def _storm_s(self) -> float:
        """Return the seconds until a little after the last fault, change or message."""
        messages = max((each.at for each in self._plan.messages), default=0.0)
        return max(messages, *(act.at for act in self._plan.acts), CALM_S) + CALM_S

    async def _begin(self) -> None:
        world = self._world
        world.add_topics()
        for subscription in self._plan.subscriptions:
            await self._operators.create(subscription)
        for number in range(self._plan.workers):
            world.start_worker(f"w{number}")

    def _fall_behind(self, act: Act) -> None:
        """Let the replica that will become the server of the database follow no longer."""
        self._note(act, begins=True)
        replica = replica_of(self._world.plane)
        self._loop.call_outside(_lag_s(act), self._fail_over, act, replica)

    def _fail_over(self, act: Act, replica: Mapping[str, Any]) -> None:
        """Let the database be down, and then have only what its replica has."""
        self._world.database_service.down = True
        self._operators.fail_over(replica)
        self._loop.call_outside(act.seconds, self._failed_over, act)

    def _failed_over(self, act: Act) -> None:
        self._world.database_service.down = False
        self._note(act, begins=False)

    def _note(self, act: Act, *, begins: bool) -> None:
        where = act.where or DATABASE
        self._history.add(Fault(at=self._loop.time(), what=act.what, where=where, begins=begins))

    def _act(self, act: Act) -> None:
        if self._faults.knows(act.what):
            self._faults.begin(act)
            return
        self._note(act, begins=True)
        acting = self._loop.create_task(
            self._operators.add_partition(act.where)
            if act.what == "partitions"
            else self._operators.act(act)
        )
        self._acting.add(acting)
        acting.add_done_callback(self._acting.discard)

    async def _until_changed(self) -> None:
        while self._acting:
            await asyncio.wait(self._acting)
        # End all faults once more: a fault that ended late may have begun another one. From now on
        # there are no faults.
        over = max((act.at + act.seconds for act in self._plan.acts), default=0.0)
        await passes(max(0.0, START_S + over - self._loop.time()) + CALM_S)
        self._faults.heal()
        await self._operators.resume_all()

    async def _drain(self) -> list[str]:
        until = self._loop.time() + DRAIN_MAX_S
        while left := [*self._world.unfinished()]:
            if self._loop.time() > until:
                return left
            await passes(LOOK_S)
        return []

    async def _stop(self) -> None:
        stopping = [worker for _, worker in self._world.running()]
        for worker in stopping:
            worker.stopping.set()
        running = [worker.running for worker in stopping if worker.running is not None]
        if running:
            _, late = await asyncio.wait(running, timeout=STOP_MAX_S)
            if late:
                self._world.complain(f"{len(late)} workers did not stop")

    def _count(self) -> None:
        plane = self._world.plane
        for subscription in plane.subscriptions.values():
            statuses = [
                status for (id_, _), status in plane.statuses.items() if id_ == subscription.id
            ]
            listed = (
                (each.partition, each.offset)
                for each in plane.undelivered
                if each.subscription_id == subscription.id
            )
            self._history.add(
                Counted(
                    at=self._loop.time(),
                    incarnation=subscription.id,
                    delivered=sum(each.delivered for each in statuses),
                    discarded=sum(each.discarded for each in statuses),
                    filtered=sum(each.filtered for each in statuses),
                    listed=tuple(sorted(listed)),
                )
            )


def _lag_s(failover: Act) -> float:
    return min(failover.at, LAG_MAX_S * failover.amount)

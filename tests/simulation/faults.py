"""Begins and ends the faults of a plan."""

from collections.abc import Callable, Mapping
from typing import Final

from app.domain.message import Partition
from app.domain.streams import OWN
from tests.simulation.conditions import Link
from tests.simulation.dead_letters import DEAD
from tests.simulation.history import Fault
from tests.simulation.plan import Act
from tests.simulation.subscribers import MOODS, WELL
from tests.simulation.world import World

# The names of places for faults that all processes notice.
LOG: Final = "log"
DATABASE: Final = "database"


class Faults:
    """All faults of a simulated world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._begins: Mapping[str, Callable[[Act], Callable[[], None] | None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "clock": self._clock,
            "join": self._join,
            "log down": self._log_down,
            "log slow": self._log_slow,
            "log lossy": self._log_lossy,
            "log cut": lambda act: self._cut(act, deaf=False),
            "log deaf": lambda act: self._cut(act, deaf=True),
            "leader": self._leader,
            "unclean": self._unclean,
            "replicas": self._replicas,
            "commits refused": self._commits_refused,
            "commits late": self._commits_late,
            "retention": self._retention,
            "database down": self._database_down,
            "database slow": self._database_slow,
            "database lossy": self._database_lossy,
            "mood": self._mood,
            "cut": self._subscriber_cut,
            "deaf": self._subscriber_deaf,
            "lagging": self._subscriber_lags,
            "reset": self._reset,
            "revoke": self._revoke,
        }

    def knows(self, what: str) -> bool:
        """Whether this is the name of a fault, and not of a change by an operator."""
        return what in self._begins

    def begin(self, act: Act) -> None:
        """Begin a fault. It ends after the time that the plan says."""
        end = self._begins[act.what](act)
        if end is not None:
            self._world.loop.call_outside(act.seconds, end)

    def heal(self) -> None:
        """End all faults now, and make sure that at least one worker runs."""
        world = self._world
        world.log_service.heal()
        world.database_service.heal()
        world.network.service.heal()
        for subscriber in world.subscribers.values():
            subscriber.mood = WELL
        for _, worker in world.running():
            worker.process.wall_offset_s = 0.0
            if worker.process.paused:
                world.loop.resume(worker.process)
        world.log.refusing.clear()
        world.log.commits_late_s = 0.0
        for partition, stored in world.log.stored.items():
            if not stored.has_leader:
                world.log.elect(partition)
            stored.replicates = True
            stored.replicate(stored.end, stored.term)
        if all(worker.stopping.is_set() for _, worker in world.running()):
            # Use a place of its own: a worker that is still stopping occupies its place.
            world.start_worker("spare")
        world.log.changed.send()

    def _note(self, what: str, where: str, *, begins: bool) -> None:
        world = self._world
        world.history.add(Fault(at=world.loop.time(), what=what, where=where, begins=begins))

    def _lasting(self, act: Act, where: str, end: Callable[[], None]) -> Callable[[], None]:
        """Record the beginning of a fault; return a function that ends it, and records the end."""
        self._note(act.what, where, begins=True)

        def over() -> None:
            end()
            self._note(act.what, where, begins=False)

        return over

    # ---- processes ------------------------------------------------------------------------------

    def _process(self, act: Act) -> str | None:
        worker = self._world.workers.get(act.where)
        return None if worker is None or worker.is_over else worker.process.name

    def _kill(self, act: Act) -> Callable[[], None] | None:
        name = self._process(act)
        if name is None:
            return None
        self._note("kill", name, begins=True)
        self._world.kill(act.where)
        return lambda: self._world.start_worker(act.where)

    def _stop(self, act: Act) -> Callable[[], None] | None:
        worker = self._world.workers.get(act.where)
        if worker is None or worker.is_over:
            return None
        self._note("stop", worker.process.name, begins=True)
        # Send the signal. A paused worker handles it only when it runs again.
        self._world.loop.call_outside(0.0, worker.stopping.set)
        return lambda: self._world.start_worker(act.where)

    def _pause(self, act: Act) -> Callable[[], None] | None:
        worker = self._world.workers.get(act.where)
        if worker is None or worker.is_over or worker.process.paused:
            return None
        process = worker.process
        self._world.loop.pause(process)
        return self._lasting(act, process.name, lambda: self._world.loop.resume(process))

    def _clock(self, act: Act) -> Callable[[], None] | None:
        """Move the wall clock of a process forwards or backwards until the fault ends."""
        worker = self._world.workers.get(act.where)
        if worker is None or worker.is_over:
            return None
        process, step_s = worker.process, act.seconds if act.amount > 0.25 else -act.seconds
        process.wall_offset_s += step_s

        def back() -> None:
            if process.wall_offset_s:  # else all was healed before
                process.wall_offset_s -= step_s

        return self._lasting(act, process.name, back)

    def _join(self, act: Act) -> Callable[[], None] | None:
        """Start one more worker, which stops when the fault ends."""
        place = f"{act.where}+"
        if place in self._world.workers and not self._world.workers[place].is_over:
            return None
        self._note("join", place, begins=True)
        self._world.start_worker(place)
        worker = self._world.workers[place]

        def leave() -> None:
            if worker.is_over:
                return
            self._note("stop", worker.process.name, begins=True)
            worker.stopping.set()

        return leave

    # ---- the log --------------------------------------------------------------------------------

    def _log_down(self, act: Act) -> Callable[[], None]:
        service = self._world.log_service
        service.down = True

        def up() -> None:
            service.down = False
            self._world.log.changed.send()

        return self._lasting(act, LOG, up)

    def _log_slow(self, act: Act) -> Callable[[], None]:
        service = self._world.log_service
        service.extra_s = act.amount

        def fast() -> None:
            service.extra_s = 0.0

        return self._lasting(act, LOG, fast)

    def _log_lossy(self, act: Act) -> Callable[[], None]:
        return self._lossy(act, [self._log_link(act), self._world.log_service.link("p0")], LOG)

    def _lossy(self, act: Act, links: list[Link], where: str) -> Callable[[], None]:
        for link in links:
            link.loss = act.amount

        def whole() -> None:
            for link in links:
                link.loss = 0.0

        return self._lasting(act, where, whole)

    def _log_link(self, act: Act) -> Link:
        return self._world.log_service.link(self._process(act) or act.where)

    def _cut(self, act: Act, *, deaf: bool) -> Callable[[], None]:
        """Cut the connection of a worker to the log.

        With `deaf` only the answers of the log are lost; otherwise requests are lost, too.
        """
        link = self._log_link(act)
        link.requests_severed, link.answers_severed = not deaf, True

        def healed() -> None:
            link.heal()
            self._world.log.changed.send()

        return self._lasting(act, self._process(act) or act.where, healed)

    def _partitions(self, act: Act) -> list[Partition]:
        """Return random partitions of a topic and of the streams."""
        every = self._world.log.partitions_of(act.where)
        for stream in (*sorted(OWN), DEAD.name):
            every += self._world.log.partitions_of(stream)
        size = max(1, int(act.amount * len(every)))
        return self._world.loop.random.sample(every, size)

    def _leader(self, act: Act) -> Callable[[], None]:
        return self._elected(act, back=0)

    def _unclean(self, act: Act) -> Callable[[], None] | None:
        """Let a topic lose records that readers have seen, if its ack allows that."""
        topic = next(each for each in self._world.plan.topics if each.name == act.where)
        return None if topic.ack_all else self._elected(act, back=1 + int(3 * act.amount))

    def _elected(self, act: Act, *, back: int) -> Callable[[], None]:
        log = self._world.log
        chosen = self._partitions(act)
        if back:
            chosen = [each for each in chosen if each.topic not in (*OWN, DEAD.name)]
        for partition in chosen:
            log.kill_leader(partition)

        def elect() -> None:
            for partition in chosen:
                log.elect(partition, back=back)

        return self._lasting(act, LOG, elect)

    def _replicas(self, act: Act) -> Callable[[], None]:
        log = self._world.log
        chosen = [log.stored[each] for each in self._partitions(act)]
        for stored in chosen:
            stored.replicates = False

        def caught_up() -> None:
            for stored in chosen:
                stored.replicates = True
                stored.replicate(stored.end, stored.term)
            log.changed.send()

        return self._lasting(act, LOG, caught_up)

    def _commits_refused(self, act: Act) -> Callable[[], None]:
        self._world.log.refusing["*"] = "the coordinator is loading"
        return self._lasting(act, LOG, self._world.log.refusing.clear)

    def _commits_late(self, act: Act) -> Callable[[], None]:
        self._world.log.commits_late_s = 12 * act.amount

        def in_time() -> None:
            self._world.log.commits_late_s = 0.0

        return self._lasting(act, LOG, in_time)

    def _retention(self, act: Act) -> None:
        for partition in self._world.log.partitions_of(act.where):
            stored = self._world.log.stored[partition]
            offset = stored.start + int(act.amount * (stored.high - stored.start))
            self._world.log.trim(partition, offset)
        self._note("retention", act.where, begins=True)

    # ---- the database ---------------------------------------------------------------------------

    def _database_down(self, act: Act) -> Callable[[], None]:
        service = self._world.database_service
        service.down = True

        def up() -> None:
            service.down = False

        return self._lasting(act, DATABASE, up)

    def _database_slow(self, act: Act) -> Callable[[], None]:
        service = self._world.database_service
        service.extra_s = 4 * act.amount

        def fast() -> None:
            service.extra_s = 0.0

        return self._lasting(act, DATABASE, fast)

    def _database_lossy(self, act: Act) -> Callable[[], None]:
        link = self._world.database_service.link(self._process(act) or act.where)
        return self._lossy(act, [link], DATABASE)

    # ---- the network and subscribers ------------------------------------------------------------

    def _mood(self, act: Act) -> Callable[[], None] | None:
        subscriber = self._world.subscribers.get(self._address(act))
        if subscriber is None:
            return None
        subscriber.mood = MOODS[act.to]

        def well() -> None:
            subscriber.mood = WELL

        return self._lasting(act, act.where, well)

    def _address(self, act: Act) -> str:
        """Return the address that a fault of a subscriber affects, if there are several."""
        return self._world.address_at(act.where, act.amount)

    def _ways(self, act: Act) -> list[Link]:
        network, address = self._world.network, self._address(act)
        return [network.link(worker.process.name, address) for _, worker in self._world.running()]

    def _subscriber_cut(self, act: Act) -> Callable[[], None]:
        return self._severed(act, deaf=False)

    def _subscriber_deaf(self, act: Act) -> Callable[[], None]:
        return self._severed(act, deaf=True)

    def _severed(self, act: Act, *, deaf: bool) -> Callable[[], None]:
        """Cut the connections of all workers to a subscriber.

        With `deaf` only the answers of the subscriber are lost; otherwise requests are lost, too.
        """
        links = self._ways(act)
        for link in links:
            link.requests_severed, link.answers_severed = not deaf, True

        def healed() -> None:
            for link in links:
                link.heal()

        return self._lasting(act, act.where, healed)

    def _subscriber_lags(self, act: Act) -> Callable[[], None]:
        links = self._ways(act)
        for link in links:
            link.extra_s = act.amount

        def fast() -> None:
            for link in links:
                link.extra_s = 0.0

        return self._lasting(act, act.where, fast)

    def _revoke(self, act: Act) -> None:
        if self._world.tokens is not None:
            self._world.tokens.revoke()
        self._note("revoke", act.where, begins=True)

    def _reset(self, act: Act) -> None:
        for _, worker in self._world.running():
            self._world.network.reset(worker.process.name, self._address(act))
        self._note("reset", act.where, begins=True)

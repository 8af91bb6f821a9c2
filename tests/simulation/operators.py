"""Simulated operators, who create, suspend, edit, move and delete subscriptions as the API does.

The API's own services need SQL. So this module makes their changes of the log and of the database,
in the same order. The code that waits until workers have applied a change is the real one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.domain.catalogue.seek import Seek
from app.domain.catalogue.subscription import State, Subscription
from app.domain.catalogue.topic import Topic
from app.domain.commit import initial_metadata
from app.domain.errors import AngeliaError, StorageUnavailableError
from app.log.interface import Committed
from app.services.applied_changes import APPLIED_WITHIN
from app.services.catalogue.foreign_changes import LOOK_EVERY
from tests.fakes.replica import fail_over
from tests.simulation.control_plane import done
from tests.simulation.history import Done, Ordered, Rebatched, Subscribed
from tests.simulation.plan import Act, SubscriptionPlan
from tests.simulation.remote import Remote
from tests.simulation.resends import Resends
from tests.simulation.virtual_loop import passes
from tests.simulation.world import World, log_topic, resumed


class Operators:
    """All operators together. They use the API process `p0`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans = {each.name: each for each in world.plan.subscriptions}
        self._log = world.log.client("p0")
        self._database = Remote("p0", world.database_service, StorageUnavailableError)
        self._resends = Resends(world, self._log, self._database)
        self._made = 0
        # The id of the current incarnation of each subscription, by the subscription's name.
        self.current: dict[str, str] = {}
        # The names of the subscriptions that are being created. The product claims them, too.
        self._claimed: set[str] = set()

    async def create(self, plan: SubscriptionPlan) -> None:
        """Create the subscription, unless another call is creating it.

        It gets the messages that are published from now on.
        """
        if plan.name in self._claimed:
            return
        self._claimed.add(plan.name)
        try:
            await self._create(plan)
        finally:
            self._claimed.remove(plan.name)

    async def _create(self, plan: SubscriptionPlan) -> None:
        world = self._world
        world.add_subscriber(plan)
        self._made += 1
        draft = world.draft(plan, self._incarnation(plan.name))
        try:
            bounds = await self._log.bounds(await self._log.partitions(plan.topic))
            first = {
                partition: Committed(bound.end, initial_metadata(draft.id))
                for partition, bound in bounds.items()
            }
            if await self._log.commit({draft.group: first}):
                return
            start = {partition.index: bound.end for partition, bound in bounds.items()}
            created = replace(draft, start=start)
            await self._store(created)
        except AngeliaError:
            return
        self._plans[plan.name] = plan
        self.current[plan.name] = created.id
        world.history.add(
            Subscribed(
                at=world.loop.time(),
                subscription=plan.name,
                incarnation=created.id,
                topic=plan.topic,
                start=tuple(start[index] for index in sorted(start)),
            )
        )
        if created.id not in world.plane.subscriptions:
            # The database failed over while its answer was on the way.
            self._note(created, "lost")
            del self.current[plan.name]

    async def act(self, act: Act) -> None:
        """Make the change that the act describes, if its subscription exists now."""
        if act.what == "create":
            plan = self._plans[act.where]
            others = ("well",) * len(plan.addresses)
            name = f"{plan.name}x{self._made}"
            await self.create(replace(plan, name=name, mood="well", addresses=others))
            return
        subscription = self._subscription(act.where)
        if subscription is None:
            return
        match act.what:
            case "suspend":
                await self._suspend(subscription, act.seconds)
            case "edit":
                await self._edit(subscription, act.amount)
            case "seek":
                await self._seek(subscription, act.amount)
            case "resend":
                await self._resend(subscription, act)
            case "delete":
                await self._delete(subscription)
            case "recreate":
                await self._delete(subscription)
                await passes(act.seconds)
                if act.where not in self.current:
                    await self.create(self._plans[act.where])
            case _:
                raise ValueError(act.what)

    async def add_partition(self, name: str) -> None:
        """Add a partition to a topic."""
        topic = self._world.plane.topics[name]
        more = replace(topic, partitions=topic.partitions + 1)
        try:
            await self._log.alter_topic(log_topic(more))
        except AngeliaError:
            # Only the answer may be lost.
            await self._follow(name)
            return
        self._take_over(more)

    async def _follow(self, name: str) -> None:
        """Take over the partitions that the topic has in the log when this can be read."""
        while True:
            await passes(LOOK_EVERY.total_seconds())
            try:
                count = (await self._log.partition_counts([name]))[name]
            except AngeliaError:
                continue
            topic = self._world.plane.topics[name]
            if count > topic.partitions:
                self._take_over(replace(topic, partitions=count))
            return

    def _take_over(self, topic: Topic) -> None:
        self._world.plane.add(topic)
        self._world.plane.notify()

    def fail_over(self, replica: Mapping[str, Any]) -> None:
        """Let a replica become the server of the database. Changes that it lacks are undone."""
        plane, before = self._world.plane, {**self._world.plane.subscriptions}
        fail_over(plane, replica)
        self.current = {each.name: each.id for each in plane.subscriptions.values()}
        for lost in before.values():
            if lost.id not in plane.subscriptions:
                self._note(lost, "lost")
        for each in plane.subscriptions.values():
            if before.get(each.id) != each:
                self._note(each, "undone")

    def _note(self, subscription: Subscription, what: str) -> None:
        """Record a change. `subscription` has the settings after it."""
        at, history = self._world.loop.time(), self._world.history
        history.add(
            Ordered(
                at=at,
                incarnation=subscription.id,
                what=what,
                rate=subscription.policy.rate,
                in_flight=subscription.policy.in_flight_max,
            )
        )
        if subscription.batching is not None:
            size = subscription.policy.batch_size
            history.add(Rebatched(at=at, incarnation=subscription.id, size=size))

    async def resume_all(self) -> None:
        """Activate all suspended subscriptions."""
        for subscription in [*self._world.plane.subscriptions.values()]:
            if subscription.state is State.SUSPENDED:
                await self._change(subscription, "resume", resumed)

    def _subscription(self, name: str) -> Subscription | None:
        return self._world.plane.subscriptions.get(self.current.get(name, ""))

    async def _suspend(self, subscription: Subscription, seconds: float) -> None:
        await self._change(subscription, "suspend", lambda now: replace(now, state=State.SUSPENDED))
        await passes(seconds)
        await self._change(subscription, "resume", resumed)

    async def _edit(self, subscription: Subscription, amount: float) -> None:
        def edited(now: Subscription) -> Subscription:
            policy = replace(
                now.policy,
                rate=max(1, int(now.policy.rate * (0.5 + amount))),
                in_flight_max=max(1, int(now.policy.in_flight_max * (0.5 + amount))),
            )
            if now.batching is not None:
                size = max(1, int(now.policy.batch_size * (0.5 + amount)))
                policy = replace(policy, batch_size=size)
            return replace(now, policy=policy)

        await self._change(subscription, "edit", edited)

    async def _seek(self, subscription: Subscription, amount: float) -> None:
        try:
            bounds = await self._log.bounds(await self._log.partitions(subscription.topic))
        except AngeliaError:
            return
        now_ms = int(self._world.loop.wall_s() * 1_000)
        offsets = {
            partition.index: bound.start + int(amount * (bound.end - bound.start))
            for partition, bound in bounds.items()
        }
        self._world.history.add(
            Subscribed(
                at=self._world.loop.time(),
                subscription=subscription.name,
                incarnation=subscription.id,
                topic=subscription.topic,
                start=tuple(offsets[index] for index in sorted(offsets)),
                seek=True,
            )
        )
        await self._change(
            subscription,
            "seek",
            lambda now: replace(now, seek=Seek.after(now.seek, offsets, {}, now_ms=now_ms)),
        )

    async def _resend(self, subscription: Subscription, act: Act) -> None:
        sent_again = await self._resends.request(subscription, act)
        if sent_again and act.seconds:
            await passes(act.seconds)
            what = f"cancel {int(sent_again, 16)}"
            await self._change(
                subscription, what, lambda now: self._resends.cancelled(now, sent_again)
            )

    def _incarnation(self, name: str) -> str:
        # A retransmission names its subscription by a UUID in hex.
        return f"{self._made:032x}" if self._world.plan.resends else f"{name}-{self._made}"

    async def _delete(self, subscription: Subscription) -> None:
        await self._change(subscription, "delete", lambda _: None)

    async def _change(
        self,
        subscription: Subscription,
        what: str,
        change: Callable[[Subscription], Subscription | None],
    ) -> None:
        """Store a change of a subscription, and wait until all workers have applied it."""
        world, plane = self._world, self._world.plane
        ordered = change(plane.subscriptions.get(subscription.id, subscription)) or subscription
        ordered_at = world.loop.time()
        self._note(ordered, what)

        async def store() -> int:
            stored = plane.subscriptions.get(subscription.id)
            if stored is None:
                return 0
            changed = change(stored)
            if changed is None:
                plane.delete(stored)
                self.current.pop(subscription.name, None)
            else:
                plane.put(changed)
            plane.notify()
            return plane.number

        try:
            number = await done(self._database, store)
        except AngeliaError:
            return
        applied = bool(number) and await world.applied.wait(number, within=APPLIED_WITHIN)
        world.history.add(
            Done(
                at=world.loop.time(),
                incarnation=subscription.id,
                what=what,
                ordered_at=ordered_at,
                applied=applied,
            )
        )

    async def _store(self, created: Subscription) -> None:
        async def store() -> None:
            self._world.plane.put(created)
            self._world.plane.notify()

        await done(self._database, store)

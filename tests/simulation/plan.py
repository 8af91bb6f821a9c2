"""The plan of a run, drawn from a seed: topics, subscriptions, messages, faults and changes.

A plan consists of plain data, so that a failing plan can be made smaller: any message, fault,
change or subscription may be left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from tests.simulation import batches, broadcast, dead_letters, tokens
from tests.simulation.batches import BatchPlan
from tests.simulation.subscribers import MOODS
from tests.simulation.tokens import TOKENS, TokenPlan

# All faults and changes begin within this time, in seconds.
STORM_S: Final = 25.0
# The fraction of runs in which the database fails over.
FAILOVERS: Final = 0.1
# The longest time in seconds for which a replica is behind before it becomes the server.
LAG_MAX_S: Final = 3.0
OF_OPERATORS: Final = ("suspend", "edit", "delete", "recreate", "create", "seek")
# The change by an operator that requests a retransmission, which is cancelled after some seconds,
# unless these are 0.
RESEND: Final = "resend"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic of a run. `ack_all` says whether its messages have the ack ALL."""

    name: str
    partitions: int
    ack_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionPlan:
    """A subscription of a run, and the mood of its subscriber at the start.

    Times are in seconds.
    """

    name: str
    topic: str
    mood: str
    ordering: str = "NONE"
    rate: int = 1_000
    in_flight: int = 10
    ttl_s: float = 3_600.0
    timeout_s: float = 1.0
    backoff_s: float = 0.1
    max_retries: int | None = None
    adaptive: bool = True
    retry_buffer: int = 10_000
    on_exhausted: str = "WAIT"
    traced: bool = False
    breaker: str = ""
    filtered: bool = False
    batch: BatchPlan | None = None
    # The moods of further addresses at the start, if each address gets each message.
    addresses: tuple[str, ...] = ()
    # Whether its subscriber needs tokens of the plan's provider.
    authorized: bool = False
    dead_lettered: bool = False

    @property
    def is_well(self) -> bool:
        """Whether the subscriber accepts everything at the start, at all of its addresses."""
        return {self.mood, *self.addresses} == {"well"}

    @property
    def has_one_request_for_an_attempt(self) -> bool:
        """Whether each attempt of each message is exactly one request to the subscriber."""
        return not (self.batch or self.addresses or self.authorized)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlan:
    """A message that the publisher number `publisher` publishes at the time `at`."""

    at: float
    name: str
    topic: str
    key: str | None
    publisher: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A fault, or a change by an operator.

    Attributes:
        at: When it begins.
        what: The kind of fault or change.
        where: The worker, topic or subscription.
        seconds: How long it lasts.
        amount: How strong it is, from 0 to 1. The meaning depends on the kind.
        to: The new mood of a subscriber.
    """

    at: float
    what: str
    where: str = ""
    seconds: float = 0.0
    amount: float = 0.0
    to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one run."""

    seed: int
    workers: int
    topics: Sequence[TopicPlan]
    subscriptions: Sequence[SubscriptionPlan]
    messages: Sequence[MessagePlan]
    acts: Sequence[Act]
    numbered: bool = True
    replication_s: float = 0.01
    tokens: TokenPlan | None = None

    @property
    def resends(self) -> bool:
        """Whether messages are sent again by retransmissions."""
        return any(each.what == RESEND for each in self.acts)

    def without(self, **changed: object) -> "Plan":
        """Return the plan with some fields replaced."""
        return replace(self, **changed)  # type: ignore[arg-type]  # the fields of a plan


def plan_of(seed: int, *, plain: bool = False) -> Plan:
    """Draw the plan of a seed.

    With `plain`, leave out what later versions of this package added. Each addition is drawn with a
    generator of its own, so the rest of the plan is the same.
    """
    plan = _plain_plan_of(seed)
    if plain:
        return plan
    cast = Cast(plan.subscriptions, plan.topics, plan.workers)
    resending = plan.without(acts=_with_resends([*plan.acts], seed, cast))
    if resending.resends:
        # The other additions do not know the names of messages that are sent again.
        return resending
    count, moods = len(plan.subscriptions), sorted(MOODS)
    in_batches = batches.draw(seed, count)
    further = broadcast.draw(seed, count, moods)
    provider = tokens.draw(seed, count, moods, storm_s=STORM_S)
    dead_lettered = dead_letters.draw(seed, count)
    subscriptions = [
        replace(
            each,
            batch=in_batches[number],
            # A subscription with batches cannot broadcast.
            addresses=() if in_batches[number] else further[number],
            authorized=provider.authorized[number],
            dead_lettered=dead_lettered[number],
        )
        for number, each in enumerate(plan.subscriptions)
    ]
    faults = [Act(where=TOKENS, **fault._asdict()) for fault in provider.faults]
    acts = sorted([*plan.acts, *faults, *_failovers(seed, cast)], key=lambda each: each.at)
    return plan.without(subscriptions=subscriptions, acts=acts, tokens=provider.plan)


def _plain_plan_of(seed: int) -> Plan:
    random = Random(f"plan {seed}")
    workers = random.choice((1, 1, 2, 2, 3, 4, 5))
    topics = [
        TopicPlan(
            name=f"sim.t{number}",
            partitions=random.choice((1, 2, 3, 4)),
            ack_all=random.random() < 0.85,
        )
        for number in range(random.choice((1, 1, 2)))
    ]
    subscriptions = [
        _subscription(random, f"s{number}", random.choice(topics).name)
        for number in range(random.choice((1, 2, 2, 3, 4)))
    ]
    return Plan(
        seed=seed,
        workers=workers,
        topics=topics,
        subscriptions=subscriptions,
        messages=_messages(random, topics),
        acts=_acts(random, Cast(subscriptions, topics, workers)),
        numbered=random.random() < 0.9,
        replication_s=random.choice((0.0, 0.01, 0.05)),
    )


def _subscription(random: Random, name: str, topic: str) -> SubscriptionPlan:
    healthy = random.random() < 0.4
    return SubscriptionPlan(
        name=name,
        topic=topic,
        mood="well" if healthy else random.choice(sorted(MOODS)),
        ordering=random.choice(("NONE", "NONE", "KEY", "PARTITION")),
        rate=random.choice((5, 20, 100, 1_000)),
        in_flight=random.choice((1, 3, 10, 50)),
        ttl_s=random.choice((3_600, 3_600, 20, 5)),
        timeout_s=random.choice((0.5, 1.0, 3.0)),
        backoff_s=random.choice((0.0, 0.1, 1.0)),
        max_retries=random.choice((None, None, 0, 2, 6)),
        adaptive=random.random() < 0.7,
        retry_buffer=random.choice((10_000, 10_000, 5)),
        on_exhausted=random.choice(("WAIT", "RUN", "DISCARD", "DISCARD_OLDEST")),
        traced=random.random() < 0.2,
        breaker=random.choice(("", "", "", "own", "shared")),
        filtered=random.random() < 0.2,
    )


def _messages(random: Random, topics: Sequence[TopicPlan]) -> list[MessagePlan]:
    total = random.choice((10, 30, 60, 120))
    burst = random.random() < 0.3
    messages = []
    for number in range(total):
        topic = random.choice(topics)
        at = random.choice((1.0, 10.0)) if burst else random.uniform(0.5, STORM_S)
        key = random.choice((None, "a", "b", "c"))
        size = random.choice((0, 0, 0, 2_000))
        messages.append(
            MessagePlan(
                at=round(at + number * 1e-4, 4),
                name=f"m{number}",
                topic=topic.name,
                key=key,
                publisher=random.randrange(2),
                size=size,
            )
        )
    return sorted(messages, key=lambda each: each.at)


class Cast(NamedTuple):
    """The subscriptions, topics and workers among which faults and changes are drawn."""

    subscriptions: Sequence[SubscriptionPlan]
    topics: Sequence[TopicPlan]
    workers: int


Draw = Callable[[Random, Cast], Act]


def _acts(random: Random, cast: Cast) -> list[Act]:
    # Draw only a few kinds of faults and changes for each run, instead of all kinds for every run.
    kinds = random.sample(sorted(_DRAWS), random.choice((0, 1, 2, 3, 5)))
    acts = []
    for kind in kinds:
        for _ in range(random.choice((1, 2, 4))):
            drawn = _DRAWS[kind](random, cast)
            acts.append(replace(drawn, at=round(random.uniform(1.0, STORM_S), 3)))
    return sorted(acts, key=lambda each: each.at)


def _failovers(seed: int, cast: Cast) -> list[Act]:
    """Draw how the database fails over, and changes by operators that it loses."""
    random = Random(f"failovers {seed}")
    if random.random() > FAILOVERS:
        return []
    acts = []
    for _ in range(random.choice((1, 1, 2))):
        at, amount = round(random.uniform(1.0, STORM_S), 3), round(random.random(), 3)
        seconds = round(random.uniform(0.5, 8.0), 3)
        acts.append(Act(at=at, what="failover", seconds=seconds, amount=amount))
        for kind in random.sample(OF_OPERATORS, random.choice((0, 1, 1, 2))):
            changed_at = max(0.0, at - random.random() * amount * LAG_MAX_S)
            lost = replace(_DRAWS[kind](random, cast), at=round(changed_at, 3))
            acts.append(lost)
            if kind == "seek":
                # Move it again, when the database has forgotten the first move.
                acts.append(replace(lost, at=round(at + seconds + 2.0, 3), amount=0.0))
    return acts


def _with_resends(acts: list[Act], seed: int, cast: Cast) -> list[Act]:
    """Add retransmissions to the changes of some seeds. They change nothing else of a plan."""
    random = Random(f"resend {seed}")
    count = random.choice((0, 0, 0, 0, 0, 0, 0, 0, 1, 2))
    resends = [
        Act(
            at=round(random.uniform(2.0, STORM_S), 3),
            what=RESEND,
            where=random.choice(cast.subscriptions).name,
            seconds=random.choice((0.0, 0.0, round(random.uniform(1.5, 8.0), 3))),
            amount=random.choice((0.1, 0.5, 1.0)),
            to=random.choice(("all", "all at 2/s", "undelivered")),
        )
        for _ in range(count)
    ]
    faults = [_fault_of_resend(random, cast, each) for each in resends if random.random() < 0.7]
    return sorted([*acts, *resends, *faults], key=lambda each: each.at)


def _fault_of_resend(random: Random, cast: Cast, resend: Act) -> Act:
    """Return a fault that begins while messages are sent again, and may interrupt that."""
    drawn = _DRAWS[random.choice(_INTERRUPTS)](random, cast)
    if drawn.what == "database lossy":
        # Lose few requests, but for a long time: so some are lost that record what was appended.
        drawn = replace(drawn, seconds=15.0, amount=0.1)
    return replace(drawn, at=round(resend.at + random.uniform(1.0, 4.0), 3))


def _of_worker(what: str, low_s: float, high_s: float) -> Draw:
    def draw(random: Random, cast: Cast) -> Act:
        seconds = round(random.uniform(low_s, high_s), 3)
        amount = round(random.uniform(0.05, 0.5), 3)
        worker = f"w{random.randrange(cast.workers)}"
        return Act(at=0, what=what, where=worker, seconds=seconds, amount=amount)

    return draw


def _of_subscription(what: str, low_s: float, high_s: float) -> Draw:
    def draw(random: Random, cast: Cast) -> Act:
        return Act(
            at=0,
            what=what,
            where=random.choice(cast.subscriptions).name,
            seconds=round(random.uniform(low_s, high_s), 3),
            amount=round(random.random(), 3),
            to=random.choice(sorted(MOODS))
            if what == "mood"
            else f"w{random.randrange(cast.workers)}",
        )

    return draw


def _of_topic(what: str, low_s: float, high_s: float) -> Draw:
    def draw(random: Random, cast: Cast) -> Act:
        return Act(
            at=0,
            what=what,
            where=random.choice(cast.topics).name,
            seconds=round(random.uniform(low_s, high_s), 3),
            amount=round(random.random(), 3),
        )

    return draw


_DRAWS: Final[dict[str, Draw]] = {
    # Faults of processes.
    "kill": _of_worker("kill", 0.5, 8.0),
    "stop": _of_worker("stop", 0.5, 8.0),
    "pause": _of_worker("pause", 0.5, 12.0),
    "clock": _of_worker("clock", 1.0, 20.0),
    "join": _of_worker("join", 3.0, 15.0),
    # Faults of the log, and a change of it.
    "log down": _of_worker("log down", 0.5, 9.0),
    "log slow": _of_worker("log slow", 1.0, 10.0),
    "log lossy": _of_worker("log lossy", 1.0, 10.0),
    "log cut": _of_worker("log cut", 0.5, 12.0),
    "log deaf": _of_worker("log deaf", 0.5, 12.0),
    "leader": _of_topic("leader", 0.2, 4.0),
    "unclean": _of_topic("unclean", 0.2, 4.0),
    "replicas": _of_topic("replicas", 0.5, 4.0),
    "commits refused": _of_worker("commits refused", 0.5, 6.0),
    "commits late": _of_worker("commits late", 1.0, 8.0),
    "retention": _of_topic("retention", 0.0, 0.0),
    "partitions": _of_topic("partitions", 0.0, 0.0),
    # Faults of the database.
    "database down": _of_worker("database down", 0.5, 12.0),
    "database slow": _of_worker("database slow", 1.0, 10.0),
    "database lossy": _of_worker("database lossy", 1.0, 10.0),
    # Faults of the network, and of subscribers.
    "mood": _of_subscription("mood", 1.0, 12.0),
    "cut": _of_subscription("cut", 0.5, 8.0),
    "deaf": _of_subscription("deaf", 0.5, 8.0),
    "lagging": _of_subscription("lagging", 0.5, 8.0),
    "reset": _of_subscription("reset", 0.0, 0.0),
    # Changes by operators.
    "suspend": _of_subscription("suspend", 0.5, 6.0),
    "edit": _of_subscription("edit", 0.0, 0.0),
    "delete": _of_subscription("delete", 0.0, 0.0),
    "recreate": _of_subscription("recreate", 0.2, 4.0),
    "create": _of_subscription("create", 0.0, 0.0),
    "seek": _of_subscription("seek", 0.0, 0.0),
}
KINDS: Final = (*_DRAWS, "revoke", "failover", RESEND)
# The faults that can let another worker continue a retransmission.
_INTERRUPTS: Final = (
    *("database lossy", "database lossy", "database lossy", "database down"),
    *("kill", "stop", "pause", "log lossy", "log slow"),
)

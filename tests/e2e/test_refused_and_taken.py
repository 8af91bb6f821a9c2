"""What was refused and recorded when its worker was killed, and is taken by its subscriber then."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.accounts import agree
from tests.e2e.service import Process, Service, running
from tests.fakes.subscriber import Received, Reply, Subscriber
from tests.servers.service import ONE_LOG

TOPIC = "github.events"
COUNT = 400
# So many are refused before the worker is killed.
REFUSED_FIRST = 150
IN_FLIGHT = 20
PATIENCE_S = 60.0


class Relenting:
    """Refuses all for good until it is `lenient`; remembers what it answered."""

    def __init__(self) -> None:
        self.lenient = False
        self.answers: dict[str, list[int]] = defaultdict(list)

    def __call__(self, received: Received) -> Reply:
        status = 201 if self.lenient else 400
        self.answers[received.message_id].append(status)
        return Reply(status=status)

    def ended_with(self, status: int) -> list[str]:
        return [each for each, said in self.answers.items() if said[-1] == status]

    def taken_after_all(self) -> list[str]:
        return [each for each, said in self.answers.items() if said[0] == 400 != said[-1]]


async def kill_and_relent(service: Service, worker: Process, script: Relenting) -> None:
    await worker.kill()
    script.lenient = True
    await service.worker()


@ONE_LOG
async def test_what_is_refused_and_taken_after_a_kill_is_delivered_and_listed_no_more(
    configuration: Mapping[str, str], logs: Path
) -> None:
    script = Relenting()
    async with running(configuration, logs, workers=0) as service, Subscriber(script) as receiver:
        await service.topic(TOPIC, partitions=2)
        path = await service.subscribe(TOPIC, "s", receiver.url, inflightSize=IN_FLIGHT)
        bodies = [(b'{"number": %d}' % n, str(n)) for n in range(COUNT)]
        published = await service.publish_all(TOPIC, bodies)
        worker = await service.worker()
        await receiver.wait_for(REFUSED_FIRST, PATIENCE_S)
        await kill_and_relent(service, worker, script)
        await service.accounted(path, COUNT)
        assert script.answers.keys() == published.keys()
        assert script.taken_after_all()
        taken, refused = script.ended_with(201), sorted(script.ended_with(400))
        await agree(service, path, delivered=len(taken), refused=refused)

import json

from app.cli.commands.demo.events import REFUSED_TYPE
from app.cli.commands.demo.subscribers import Attempt, Flaky, Subscriber, broken, healthy
from app.cli.receiver import Received, ReceiverAnswer


def attempt(
    sequence: int, *, first: bool = True, now: float = 10.0, kind: str = "order.paid"
) -> Attempt:
    return Attempt(sequence=sequence, type=kind, first=first, now=now)


def request(message_id: str, body: bytes = b'{"event": "order.paid", "sequence": 1}') -> Received:
    return Received(path="/x", headers={"hermes-message-id": message_id}, body=body)


def test_the_broken_subscriber_refuses_one_type_whatever_the_attempt() -> None:
    assert broken(attempt(1, kind=REFUSED_TYPE)).status == 400
    assert broken(attempt(1, kind=REFUSED_TYPE, first=False)).status == 400
    assert broken(attempt(1)).status == 200


def test_the_flaky_subscriber_asks_for_a_pause_while_it_is_overloaded() -> None:
    flaky = Flaky(1000)
    overloaded = flaky(attempt(200, now=10.0))
    assert (overloaded.status, overloaded.headers["Retry-After"]) == (503, "1")
    assert flaky(attempt(201, now=10.2)).status == 503
    assert flaky(attempt(202, now=10.4)).status == 200


def test_the_flaky_subscriber_fails_some_first_attempts_without_a_word() -> None:
    flaky = Flaky(1000)
    failing = [number for number in range(150) if flaky(attempt(number)).status == 500]
    assert failing == [7, 132]


def test_the_flaky_subscriber_takes_every_second_attempt() -> None:
    flaky = Flaky(1000)
    flaky(attempt(200))
    assert flaky(attempt(200, first=False)).status == 200
    assert flaky(attempt(7, first=False)).status == 200


def test_even_a_stream_of_one_message_ends() -> None:
    flaky = Flaky(1)
    assert flaky(attempt(0)).status == 503
    assert flaky(attempt(0, first=False)).status == 200


def test_a_subscriber_counts_attempts_and_what_it_took() -> None:
    answers = iter([ReceiverAnswer(status=500), ReceiverAnswer(), ReceiverAnswer()])
    subscriber = Subscriber("s", lambda _: next(answers), clock=lambda: 0.0)
    for message_id in ("m1", "m1", "m2"):
        subscriber.handle(request(message_id))
    assert subscriber.seen.taken == {"m1": 1, "m2": 1}
    assert (subscriber.seen.retries, subscriber.seen.finished) == (1, 2)


def test_a_subscriber_remembers_what_it_refused_for_good() -> None:
    subscriber = Subscriber("s", lambda _: ReceiverAnswer(status=400), clock=lambda: 0.0)
    subscriber.handle(request("m1"))
    assert subscriber.seen.refused == {"m1"}
    assert subscriber.seen.finished == 1


def test_a_retry_with_another_body_is_not_taken_for_the_same() -> None:
    subscriber = Subscriber("s", healthy, clock=lambda: 0.0)
    subscriber.handle(request("m1"))
    first = subscriber.seen.digests["m1"]
    other = json.dumps({"event": "order.paid", "sequence": 1, "more": True}).encode()
    subscriber.handle(request("m1", other))
    assert subscriber.seen.digests["m1"] != first

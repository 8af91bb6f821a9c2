"""Exports to an endpoint over HTTP, whatever it answers."""

import gzip

import pytest

from app.otlp.client import ANSWER_BYTES_MAX, Taken, otlp_client
from tests.fakes.otlp import Collector
from tests.fakes.subscriber import Reply

COMPRESSED = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("reply", "taken"),
    [
        (Reply(), Taken.YES),
        (Reply(status=400), Taken.NO),
        (Reply(status=503), Taken.LATER),
        (Reply(headers=COMPRESSED, body=gzip.compress(bytes(2**20))), Taken.YES),
        (Reply(headers=COMPRESSED, body=b"not gzip"), Taken.YES),
        (Reply(status=400, body=bytes(ANSWER_BYTES_MAX + 1)), Taken.NO),
    ],
    ids=["taken", "refused", "later", "compressed", "not what it says", "large"],
)
async def test_only_the_status_of_an_answer_counts(reply: Reply, taken: Taken) -> None:
    async with Collector(reply) as collector, otlp_client(collector.url, {}) as client:
        assert await client.export("traces", b"spans") is taken
        # Whatever came of the first answer is not taken for the second.
        assert await client.export("metrics", b"figures") is taken
    assert [each.path for each in collector.received] == ["/v1/traces", "/v1/metrics"]
    assert {each.headers["accept-encoding"] for each in collector.received} == {"identity"}

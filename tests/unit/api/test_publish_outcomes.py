"""One message of a batch: whatever breaks, the others are answered."""

from app.api.publish.batch import ReceivedBatch, outcome_of
from app.api.publish.batch_items import BatchItem, Form
from app.api.publish.message_ids import MessageIds
from app.api.publish.schema_check import RequestedSchema
from app.domain.catalogue.schema import TopicSchema
from app.domain.catalogue.topic import Topic
from app.schemas.request_work import RequestWork
from app.services.directory.topics import TopicDirectory
from tests.fakes.schemas import schema_check


class BreakingOnce(RequestWork):
    """Work that breaks when the first message is held against its schema."""

    broke = False

    def spend(self, ns: float) -> None:
        if not self.broke:
            self.broke = True
            raise ValueError("Recursion limit reached")
        super().spend(ns)


async def nowhere(name: str) -> Topic:
    raise AssertionError(name)


async def test_a_message_that_breaks_the_check_fails_alone_and_tells_nothing() -> None:
    schema = TopicSchema(version=1, id=1, text="{}")
    batch = ReceivedBatch(
        topic=Topic(name="shop.orders", schemas=(schema,)),
        named=RequestedSchema(),
        partition_key=None,
        propagated=(),
        body=b"[1,2]",
        form=Form.ARRAY,
        envelope=False,
        ids=MessageIds(),
        now_ms=1,
        schemas=schema_check(TopicDirectory(nowhere)),
        work=BreakingOnce(5),
    )
    broken, taken = [await outcome_of(BatchItem(body), batch) for body in (b"1", b"2")]
    assert (broken.status, broken.record) == (500, None)
    assert broken.error is not None
    assert "Recursion" not in broken.error.message
    assert taken.status == 201
    assert taken.record is not None

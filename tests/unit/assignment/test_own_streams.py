from app.domain import streams
from workers.assignment.own_streams import OWN_TOPICS


def test_workers_subscribe_to_the_streams_that_they_create() -> None:
    """A topic that does not exist is looked up again and again."""
    assert {topic.name for topic in OWN_TOPICS} == streams.OWN

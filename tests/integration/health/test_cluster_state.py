"""What health keeps of subscriptions between two looks."""

import pytest

from app.domain.catalogue.changes import LastChange
from app.services.health.cluster_state import Register
from tests.integration.health.watched import Watched, at_start


@pytest.mark.parametrize("lost", [False, True], ids=["by a request", "with the server"])
async def test_nothing_is_kept_of_a_subscription_that_was_deleted(
    watched: Watched, *, lost: bool
) -> None:
    gone, stays = await watched.subscription("gone"), await watched.subscription("stays")
    for each in (gone, stays):
        await watched.report(each, at_start(each))
    register = Register()
    known = await register.learn(watched.database)
    assert known.moved == {gone.id, stays.id}
    await watched.delete(gone)
    if lost:
        register.last = LastChange(99, None)
    await register.learn(watched.database)
    kept = (register.subscriptions, register.cursors, register.reported)
    assert [list(each) for each in kept] == [[stays.id]] * 3

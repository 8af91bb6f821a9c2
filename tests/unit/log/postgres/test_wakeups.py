import pytest

from app.domain.message import Partition
from app.log.postgres.wakeups import Appended, MembersChanged, Notice, TopicsChanged, parsed


@pytest.mark.parametrize(
    ("payload", "notice"),
    [
        ("r ns.shop.orders 3 17", Appended(Partition("shop.orders", 3), 17)),
        ("t ns.shop.orders", TopicsChanged()),
        ("m ns.angelia.workers", MembersChanged()),
        ("r other.shop.orders 3 17", None),
    ],
)
def test_a_notice_of_the_namespace_is_understood(payload: str, notice: Notice | None) -> None:
    assert parsed(payload, "ns.") == notice

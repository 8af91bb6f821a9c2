"""Our algorithm, as lines use it."""

from app.domain.subscription import DeliveryPolicy
from tests.benchmarks.rate_figures import LIMIT, Makers
from workers.delivery.pace import Pace
from workers.delivery.share import Share

ONLY_WORKER = Share.owned(LIMIT, {0}, 1)


def a_pace() -> Pace:
    """The pace of a new subscription that is all ours."""
    pace = Pace(DeliveryPolicy(rate=LIMIT), 0.0)
    pace.share(ONLY_WORKER, 0.0)
    return pace


OURS = Makers(
    new=a_pace,
    warm=a_pace,
    settled_s=10.0,
    patience_s=75.0,
)

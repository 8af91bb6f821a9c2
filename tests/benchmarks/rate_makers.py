"""Our algorithm, as lines use it."""

from app.domain.catalogue.subscription import DeliveryPolicy
from tests.benchmarks.rate_figures import LIMIT, Makers
from workers.delivery.pace import Pace
from workers.delivery.share import Share


def a_pace(limit: int = LIMIT) -> Pace:
    """The pace of a new subscription that is all ours."""
    pace = Pace(DeliveryPolicy(rate=limit), 0.0)
    pace.share(Share.owned(limit, {0}, 1), 0.0)
    return pace


OURS = Makers(
    new=a_pace,
    warm=a_pace,
    settled_s=12.0,
    patience_s=75.0,
)

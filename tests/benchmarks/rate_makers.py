"""Our algorithm, as lines use it."""

from app.domain.subscription import DeliveryPolicy
from tests.benchmarks.rate_figures import LIMIT, Makers
from workers.delivery.pace import Pace

POLICY = DeliveryPolicy(rate=LIMIT)
OURS = Makers(
    new=lambda: Pace(POLICY, 0.0),
    warm=lambda: Pace(POLICY, 0.0),
    settled_s=10.0,
    patience_s=75.0,
)

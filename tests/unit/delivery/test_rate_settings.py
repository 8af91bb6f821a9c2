from datetime import timedelta

import pytest

from app.domain.catalogue.subscription import DeliveryPolicy
from app.domain.errors import ValidationFailedError


@pytest.mark.parametrize("seconds", [0.5, 3_601])
def test_the_gap_between_probes_has_a_range_and_the_error_names_it(seconds: float) -> None:
    with pytest.raises(ValidationFailedError) as refused:
        DeliveryPolicy(heartbeat_max=timedelta(seconds=seconds))
    assert "subscriptionPolicy.heartbeatMax" in str(refused.value)
    assert "1 to 3600" in str(refused.value)

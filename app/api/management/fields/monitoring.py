"""`monitoringDetails`: what owners of a subscription tell operators about it."""

from typing import Literal

from pydantic import Field

from app.api.bodies.base import Schema, Text
from app.domain.catalogue.monitoring import REACTION_LENGTH_MAX, Monitoring, Severity


class MonitoringBody(Schema):
    """How important the subscription is to its owner, and what to do when it is unhealthy."""

    severity: Literal["CRITICAL", "IMPORTANT", "NON_IMPORTANT"] = "NON_IMPORTANT"
    reaction: Text = Field(default="", max_length=REACTION_LENGTH_MAX)

    @classmethod
    def of(cls, monitoring: Monitoring) -> "MonitoringBody":
        """Return the body that describes `monitoring`."""
        return cls(severity=monitoring.severity.value, reaction=monitoring.reaction)

    def to_domain(self) -> Monitoring:
        """Return the monitoring details."""
        return Monitoring(severity=Severity(self.severity), reaction=self.reaction)

"""`monitoringDetails`: what owners say for those who look after a subscription."""

from typing import Literal

from pydantic import Field

from app.api.bodies.base import Schema, Text
from app.domain.catalogue.monitoring import REACTION_LENGTH_MAX, Monitoring, Severity


class MonitoringBody(Schema):
    """How much the subscription matters to its owner, and what to do when it is not healthy."""

    severity: Literal["CRITICAL", "IMPORTANT", "NON_IMPORTANT"] = "NON_IMPORTANT"
    reaction: Text = Field(default="", max_length=REACTION_LENGTH_MAX)

    @classmethod
    def of(cls, monitoring: Monitoring) -> "MonitoringBody":
        """The body that describes `monitoring`."""
        return cls(severity=monitoring.severity.value, reaction=monitoring.reaction)

    def to_domain(self) -> Monitoring:
        """What it describes."""
        return Monitoring(severity=Severity(self.severity), reaction=self.reaction)

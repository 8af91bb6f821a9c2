"""For commands that run parts of the service in their own process."""

from app.telemetry import configure_logging


def quiet_logs() -> None:
    """Log warnings alone: what those parts log stands between what a command has to say."""
    configure_logging("warning")

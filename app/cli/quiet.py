"""Reduces log output, for commands that run parts of the service in their own process."""

from app.telemetry import configure_logging


def quiet_logs() -> None:
    """Log only warnings: other events would mix with the command's output."""
    configure_logging("warning")

"""Errors that end a process with jobs."""


class EngineLostError(Exception):
    """Spark or its process has ended: this process must be started again."""

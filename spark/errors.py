"""Errors that end a process that runs jobs."""


class EngineLostError(Exception):
    """Spark or its process has ended, so this process must be started again."""

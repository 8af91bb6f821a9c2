"""Errors after which a process that runs jobs must end."""


class EngineLostError(Exception):
    """Spark or its process has ended, so this process must be started again."""

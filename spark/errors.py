"""Errors after which a process that runs Spark jobs must end."""


class EngineLostError(Exception):
    """Spark or its process has ended, so this process must end and be started again."""

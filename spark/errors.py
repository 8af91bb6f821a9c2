"""What ends a process that does jobs."""


class EngineLostError(Exception):
    """Spark has ended, or its process: nothing works any more but to start anew."""

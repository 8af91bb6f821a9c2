"""Reads and writes data of Spark jobs and tasks, by blocking calls, from any machine."""

"""The Spark jobs. Each reads data, transforms it and writes the result.

Jobs run in a runner, or by `spark-submit`.
"""

"""The Spark jobs. Each job reads data, transforms the data, and writes the result.

Jobs run in a runner, or by `spark-submit`.
"""

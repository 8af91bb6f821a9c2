"""The data pipeline: jobs on Spark, and the runner that takes them from the database."""

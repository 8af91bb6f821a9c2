"""The data pipeline: jobs on Spark, and the runner that runs them."""

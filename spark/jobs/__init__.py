"""The jobs. Each job reads, transforms and writes. It runs in the runner, or by `spark-submit`."""

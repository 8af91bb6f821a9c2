"""What Spark jobs and tasks read and write: blocking calls, from any machine."""

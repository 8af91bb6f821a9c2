"""What Spark's jobs and tasks read and write: by calls that block, from any machine."""

"""The computations of jobs: from DataFrame to DataFrame."""

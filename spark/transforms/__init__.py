"""The computations of jobs, each from DataFrame to DataFrame."""

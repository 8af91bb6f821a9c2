"""The computations of jobs. Each function takes a DataFrame and returns a DataFrame."""

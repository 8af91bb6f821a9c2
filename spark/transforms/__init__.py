"""The computations of jobs. A computation takes DataFrames and returns a DataFrame."""

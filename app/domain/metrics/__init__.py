"""The history of metrics: the values of one step, their stored form, and the lengths of steps."""

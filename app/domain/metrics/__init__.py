"""The history of metrics: what a step of it has, how it is packed, and which steps there are."""

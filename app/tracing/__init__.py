"""Traces in transit: collected in each process, packed many to a record, unpacked again."""

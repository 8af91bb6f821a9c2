"""Traces on their way: collected in each process, packed many to a record, unpacked again."""

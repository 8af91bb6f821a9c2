"""The tables of the baseline, by capability, as in `app/storage/tables`."""

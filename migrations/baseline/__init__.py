"""What the baseline creates, by capability, as in `app/storage/tables`."""

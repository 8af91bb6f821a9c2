"""Use cases of the control plane: one method each, one transaction each."""

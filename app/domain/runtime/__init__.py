"""What running processes send each other."""

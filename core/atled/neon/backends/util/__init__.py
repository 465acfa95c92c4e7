"""What programs ask of the machine."""

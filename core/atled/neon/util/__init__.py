"""What programs written for neon use beside models: the command line, saved objects."""

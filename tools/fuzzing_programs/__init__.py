"""Random training programs: drawn from a seed, run by the library and by an interpreter of its own, and compared."""

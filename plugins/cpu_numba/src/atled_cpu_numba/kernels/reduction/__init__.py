"""Sums, means and extrema along axes."""

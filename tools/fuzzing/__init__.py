"""Seeded fuzzers: hostile calls and damaged files, each tried in a child process that may hang or die."""

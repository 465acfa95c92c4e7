"""Normalization by the statistics of a batch, per channel."""

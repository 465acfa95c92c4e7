"""Inference: outputs of a user's graph as plans of their own, that store nothing but the outputs."""

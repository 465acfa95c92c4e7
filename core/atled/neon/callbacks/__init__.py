"""Callbacks: what looks on while a model is trained."""

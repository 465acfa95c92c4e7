"""The version of the distribution `atled`."""

__version__ = "0.1.0"

"""The demonstration `python -m atled demo`: data, network, training, display and files."""

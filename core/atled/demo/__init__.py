"""The demonstration `python -m atled demo`: data, network, training, and what is shown of them."""

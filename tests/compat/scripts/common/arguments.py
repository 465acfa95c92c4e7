"""The arguments of a program, and the context that they ask for."""

import argparse

import nnabla as nn
from nnabla.ext_utils import get_extension_context


def get_args(max_iter, **more):
    """Parse the command line and set the default context; more: further options with their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", "-c", default="cpu")
    parser.add_argument("--device-id", "-d", default="0")
    parser.add_argument("--max-iter", type=int, default=max_iter)
    parser.add_argument("--monitor-path", default="monitor")
    for name, default in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    args = parser.parse_args()
    context = get_extension_context(args.context)
    context.device_id = str(args.device_id)
    nn.set_default_context(context)
    return args

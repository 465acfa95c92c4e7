"""Runs programs one after the other in one process: `python one_process.py FOLDER SCRIPT...`, through the drop-in.

Each starts without parameters, in a folder of its own, which takes what it prints (`stdout`) and the traceback of an
exception (`stderr`). Importing scikit-learn takes longer than any of the programs, so they share it.
"""

import contextlib
import importlib
import os
import runpy
import sys
import traceback
from pathlib import Path

from atled.compat.nnabla import install


def main(folder, *scripts):
    install()
    nn = importlib.import_module("nnabla")
    for script in map(Path, scripts):
        here = Path(folder) / script.stem
        here.mkdir()
        os.chdir(here)
        nn.clear_parameters()
        sys.argv = [str(script)]
        sys.path[0] = str(script.parent)
        with open("stdout", "w") as stdout, contextlib.redirect_stdout(stdout):
            try:
                runpy.run_path(str(script), run_name="__main__")
            except Exception:
                Path("stderr").write_text(traceback.format_exc())


if __name__ == "__main__":
    main(*sys.argv[1:])

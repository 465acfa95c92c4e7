"""atled on an NVIDIA GPU against torch, CuPy, and the bandwidth of a copy: what `make gpu GPU_PART=bench` runs.

    python benchmarks/gpu.py bandwidth                one part: bandwidth, products, host or steps, below 8 minutes each
    python benchmarks/gpu.py steps --rows LeNet       rows with one of these texts in their name

All libraries run under this interpreter and share the first GPU. Times include the waiting for the device at the end of
each sample of some milliseconds. Files go to benchmarks/results/, after each row, under the name of the device.
"""

from __future__ import annotations

import re
import sys

from bench_rows.starting import run_python
from gpu_table import PARTS
from harness.command import run_benchmark

_NAME = "import cupy; print(cupy.cuda.runtime.getDeviceProperties(0)['name'].decode())"


def main() -> int:
    """Measure one part."""
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        print(
            f"usage: gpu.py {{{','.join(PARTS)}}} [options]; gpu.py bandwidth --help shows the options", file=sys.stderr
        )
        return 2
    part = sys.argv[1]
    device = re.sub(r"[^a-z0-9]+", "-", run_python(_NAME).lower()).strip("-")
    title = (__doc__ or "").splitlines()[0]
    return run_benchmark(f"gpu-{device}-{part}", PARTS[part], title, sys.argv[2:], keeps_each=True, of_processor=False)


if __name__ == "__main__":
    sys.exit(main())

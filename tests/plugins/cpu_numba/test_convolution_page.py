"""docs/cpu_convolution.md: its tables name every file that `choice` and `weight` choose from, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cpu_convolution.md").read_text("utf-8")
KERNELS = ROOT / "plugins/cpu_numba/src/atled_cpu_numba/kernels"


def chosen_from(file):
    """The files of the modules whose `prepare` or `prepare_weight` a file calls, by their names there."""
    text = (KERNELS / file).read_text("utf-8")
    folders = re.findall(r"^from atled_cpu_numba\.kernels\.(\w+) import (.*)$", text, re.MULTILINE)
    modules = [(folder, *name.split(" as ")) for folder, names in folders for name in names.split(", ")]
    return {
        f"{folder}/{names[0]}.py"
        for folder, *names in modules
        if re.search(rf"\b{names[-1]}\.prepare(_weight)?\(", text)
    }


def test_the_tables_name_every_file_that_a_convolution_is_computed_by():
    tables = re.findall(r"^\| [^|]+ \| file \| note \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    listed = [set(re.findall(r"`(\w+/\w+\.py)`", table)) for table in tables]
    assert listed == [chosen_from("convolution/choice.py"), chosen_from("convolution/weight.py")]

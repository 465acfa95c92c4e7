"""CONTRIBUTING.md, "What to touch": one of each is added to a copy of the tree, by the files that its table names."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
ADDITIONS = ROOT / "tests" / "additions"
FOLDERS = ("benchmarks", "contexts", "core", "docs", "examples", "plugins", "tests", "tools")

Edit = Callable[[str], str]


def new(name: str) -> Edit:
    """A file of its own."""
    return lambda text: (ADDITIONS / name).read_text("utf-8")


def appended(name: str, start: str) -> Edit:
    """What follows the imports of a file of additions, behind all else."""
    added = (ADDITIONS / name).read_text("utf-8")
    return lambda text: f"{text}\n\n{added[added.index(start) :]}"


def before(anchor: str, *added: str) -> Edit:
    """Lines before the first one that begins with the anchor."""

    def edit(text: str) -> str:
        at = text.index(f"\n{anchor}") + 1
        return text[:at] + "".join(f"{line}\n" for line in added) + text[at:]

    return edit


def without(anchor: str) -> Edit:
    """The only line that begins with the anchor goes."""

    def edit(text: str) -> str:
        (line,) = re.findall(rf"^{re.escape(anchor)}.*\n", text, re.MULTILINE)
        return text.replace(line, "")

    return edit


def both(*edits: Edit) -> Edit:
    def edit(text: str) -> str:
        for one in edits:
            text = one(text)
        return text

    return edit


class Addition(NamedTuple):
    """A row of the table.

    edits: by file.  names: by what it is known in the files that `make generated` writes.
    guards: tests of the library that the addition concerns, and which of them.
    """

    edits: Mapping[str, Edit]
    names: Sequence[str] = ()
    guards: Sequence[tuple[str, str]] = ()


SOFT_SHRINK = """\
        Row(
            "SoftShrink", "soft_shrink", "where(x > lambd, x - lambd, where(x < -lambd, x + lambd, 0))",
            {"x": "where(abs(x) > lambd, gy, 0)"}, {"lambd": 0.5},
            doc="Shrinks towards 0 by lambd; 0 within it.", data={"x": away(-0.3, 0.3)}, tried={"lambd": 0.3},
        ),"""
LION_UPDATE = """\
    Update(
        "LionUpdate", ("w", "g", "m"), ("lr", "beta1", "beta2"),
        {"w": "w - lr * sign(beta1 * m + (1 - beta1) * g)", "m": "beta2 * m + (1 - beta2) * g"},
        doc="Lion. Source: Chen and others, arXiv 2302.06675.", tried={"lr": 0.1, "beta1": 0.9, "beta2": 0.99},
    ),"""
LION = '''\
class Lion(_WithLearningRate):
    """Chen et al. 2023: `w -= lr sign(beta1 m + (1-beta1) g); m = beta2 m + (1-beta2) g`."""

    _op = "LionUpdate"
    _states = ("m",)

    def __init__(self, lr: float = 1e-4, beta1: float = 0.9, beta2: float = 0.99) -> None:
        super().__init__(lr, beta1=beta1, beta2=beta2)

'''
FLIP = '''\
def prepare_flip(call: Call) -> Prepared:
    """Elements in reverse order along some axes."""
    axes = call.attributes["axes"]

    def run(x: GateArray, y: GateArray) -> None:
        _on_device(y)[...] = np.flip(_on_device(x), axes)

    return Prepared(run)

'''
OPS = "core/atled/ops"
CPU = "plugins/cpu_numba/src/atled_cpu_numba"

ADDITIONS_BY_ROW = {
    "an elementwise op": Addition(
        {f"{OPS}/activation.py": before("        Row(", *SOFT_SHRINK.splitlines())}, ("SoftShrink", "soft_shrink")
    ),
    "another op": Addition(
        {f"{OPS}/reduction.py": appended("square_sum.py", "class SquareSum")}, ("SquareSum", "square_sum")
    ),
    "a family of ops": Addition(
        {f"{OPS}/ratios.py": new("ratios.py"), f"{OPS}/__init__.py": before('    "reduction",', '    "ratios",')},
        ("SoftSign", "soft_sign"),
    ),
    "an implementation": Addition(
        {
            f"{CPU}/kernels/copies.py": new("copies.py"),
            f"{CPU}/computed_by.py": both(
                before('    "kernels.embedding"', '    "kernels.copies": ("ClipGradByNorm",),'),
                without('        "ClipGradByNorm",'),  # of those that are copied as strided arrays
            ),
        },
        ("ClipGradByNorm", "clip_grad_by_norm", "`copies`"),
        (("tests/plugins/cpu_numba/test_specs.py", "ClipGradByNorm"),),
    ),
    "a layer that transforms its weight": Addition(
        {
            "core/atled/parametric/rounded_weights.py": appended("centred_weights.py", "class CentredWeight"),
        },
        ("centred_affine", "centred_convolution"),
        (("tests/core/parametric/test_weight_transform.py", "centred"),),
    ),
    "another layer": Addition(
        {
            "core/atled/parametric/scaling.py": new("scaling.py"),
            "core/atled/parametric_functions.py": both(
                before("from atled.parametric.sequences", "from atled.parametric.scaling import channel_scale"),
                before("    embed,", "    channel_scale,"),
            ),
        },
        ("channel_scale",),
        (("tests/core/test_public_names.py", "parametric"),),
    ),
    "a solver": Addition(
        {
            f"{OPS}/solver_updates.py": before('    Update(\n        "WeightDecay"', *LION_UPDATE.splitlines()),
            "core/atled/solvers.py": both(
                before("def __dir__", *LION.splitlines(), ""), before('    "Momentum",', '    "Lion",')
            ),
        },
        ("LionUpdate",),
        (
            ("tests/core/test_solvers.py", "Lion"),
            ("tests/core/test_compiled_step.py", "Lion"),
            ("tests/core/files/test_solver_states.py", "Lion"),
            ("tests/core/graph/update/test_waiting_changes.py", "Lion"),
            ("tests/core/test_public_names.py", "solvers"),
        ),
    ),
    "a file format": Addition(
        {
            "core/atled/files/json_text.py": new("json_text.py"),
            "core/atled/files/parameters.py": before(
                '    ".nnp":',
                '    ".json": Format("atled.files.json_text", "json_image", "read_json", "an object per parameter"),',
            ),
        },
        ("`.json`",),
        (
            ("tests/core/files/test_formats.py", "json"),
            ("tests/core/files/test_hostile_files.py", "json"),
        ),
    ),
    "a device": Addition(
        {
            "src/atled_gate/driver.py": lambda text: text.replace('return ["0", "1"]', 'return ["0"]'),
            "src/atled_gate/kernels.py": both(
                before("def accepts_affine", *FLIP.splitlines(), ""),
                before(
                    "    if op_spec(op).program is None:",
                    '    if op == "Flip":',
                    '        return Implementation(op, "gate", prepare_flip, note="kernel")',
                ),
            ),
        },
        ('"Flip"',),
    ),
}


class Row(NamedTuple):
    """by_hand, generated: what the table names of files; `*`, <words> and {either,or} stand for parts of names."""

    by_hand: list[str]
    generated: list[str]


def table() -> dict[str, Row]:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = re.search(r"^## What to touch$(.*?)^## ", page, re.MULTILINE | re.DOTALL)[1]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| a")]
    return {what.split("(")[0].strip(): Row(paths(by_hand), paths(generated)) for what, by_hand, generated in rows}


def paths(cell: str) -> list[str]:
    found = re.findall(r"`([\w/.*<>{},-]+/[\w/.*<>{},-]+)`", cell)
    return [path for pattern in found for path in expanded(pattern)]


def expanded(pattern: str) -> list[str]:
    """{either,or} written out."""
    head, brace, rest = pattern.partition("{")
    if not brace:
        return [pattern]
    choices, _, tail = rest.partition("}")
    return [f"{head}{choice}{end}" for choice in choices.split(",") for end in expanded(tail)]


def matches(path: str, pattern: str) -> bool:
    kinds = {".": r"\.", "**": ".+", "*": "[^/]+"}
    expression = re.sub(r"\*\*|\*|<\w+>|\.", lambda part: kinds.get(part[0], r"[a-z]\w*"), pattern)
    return re.fullmatch(expression, path) is not None


def check_same(found: Iterable[str], patterns: Sequence[str]) -> None:
    """Each file is one that the table names, and each that it names is there."""
    found = list(found)
    assert [path for path in found if not any(matches(path, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(matches(path, pattern) for path in found)] == []


def copy_to(folder: Path) -> Path:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("results", ".venv"))
    shutil.copy2(ROOT / "pyproject.toml", folder)
    return folder


def apply(edits: Mapping[str, Edit], folder: Path) -> None:
    for path, edit in edits.items():
        before = (folder / path).read_text("utf-8") if (folder / path).exists() else ""
        after = edit(before)
        assert after != before, path
        (folder / path).write_text(after, "utf-8")


def run(folder: Path, *arguments: str, path: Sequence[Path] = ()) -> str:
    """What a process prints that imports the copy; entry points are those that are installed."""
    sources = [folder / "core", folder / "contexts", *sorted(folder.glob("*/*/src")), folder / "tests", *path]
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_the_additions_are_those_of_the_table() -> None:
    assert list(ADDITIONS_BY_ROW) == list(table())


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in ADDITIONS_BY_ROW if row != "a device"])
def test_the_files_that_the_table_names_are_all(row: str, tmp_path: Path) -> None:
    addition = ADDITIONS_BY_ROW[row]
    check_same(addition.edits, table()[row].by_hand)
    folder = copy_to(tmp_path)
    apply(addition.edits, folder)
    guards = [("tests/additions/end_to_end.py", row.replace(" ", "_")), *addition.guards]
    said = run_tests(folder, ("tests/additions/end_to_end.py", "imported"), *guards)
    assert "test_the_copy_is_imported PASSED" in said
    for path, words in guards:
        assert re.search(rf"^{path}::.*{words}.* PASSED", said, re.MULTILINE), f"nothing of {path} ran"
    if any("/kernels/" in path for path in addition.edits):
        # It takes most of a minute to write its text for all widths; that it would be written is what counts here.
        code = "import sys; sys.path.append('tools'); import kernel_texts; print(*kernel_texts.outdated())"
        assert "copy_elements_float32" in run(folder, "-c", code).split()
        assert {f"{CPU}/kernels.ir.xz", f"{CPU}/kernels.o.xz"} <= set(table()[row].generated)


def run_tests(folder: Path, *chosen: tuple[str, str], path: Sequence[Path] = ()) -> str:
    """What pytest says of tests of the copy, by their files and words in their names."""
    words = " or ".join(f"({Path(file).stem} and {word})" for file, word in chosen)
    files = dict.fromkeys(file for file, _ in chosen)
    return run(folder, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-k", words, *files, path=path)


@pytest.mark.slow
def test_a_device_is_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    folder, row, addition = copy_to(tmp_path / "copy"), table()["a device"], ADDITIONS_BY_ROW["a device"]
    run(folder, "-m", "atled", "new-plugin", "gate", "--out", str(tmp_path))
    plugin, info = tmp_path / "atled-gate", tmp_path / "site" / "atled_gate-0.1.0.dist-info"
    check_same(addition.edits, row.by_hand)
    apply(addition.edits, plugin)
    info.mkdir(parents=True)  # as pip would install it, editable
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: atled-gate\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[atled.plugins]\ngate = atled_gate.plugin:PLUGIN\n")
    path = [plugin / "src", tmp_path / "site"]
    run_tests(folder, ("tests/additions/end_to_end.py", "device"), path=path)
    run(folder, "-m", "atled", "manifest", "gate", path=path)
    written = plugin / "src" / "atled_gate" / "atled-manifest.json"
    check_same([written.relative_to(plugin).as_posix()], row.generated)
    assert '"Flip"' in written.read_text("utf-8")


# Tests that hold lists and generated files against the code, and those of single functions and ops.
LISTS = (
    ("tests/benchmarks/test_functions.py", "every or soft_shrink or square_sum"),
    ("tests/core/test_functions.py", "every or soft_shrink or square_sum"),
    ("tests/core/test_public_names.py", "dir_shows"),
    ("tests/core/generators/test_stubs.py", "up_to_date"),
    ("tests/tools/test_cpu_page.py", "every or nothing_better or up_to_date"),
    ("tests/tools/test_nnabla_check.py", "cover"),
    ("tests/tools/test_tables.py", "every or up_to_date"),
    ("tests/test_house.py", "order"),
)


@pytest.mark.slow
def test_the_generated_files_are_those_that_the_table_names(tmp_path: Path) -> None:
    folder, rows = copy_to(tmp_path), [row for row in ADDITIONS_BY_ROW if row != "a device"]
    for row in rows:
        apply(ADDITIONS_BY_ROW[row].edits, folder)
    run(folder, "-c", GENERATE, *generating())
    for row in rows:
        edits, names, generated = ADDITIONS_BY_ROW[row].edits, ADDITIONS_BY_ROW[row].names, table()[row].generated
        created = [path for path in edits if not (ROOT / path).exists()]
        structure = ["docs/structure.md"] * bool(created)
        is_kernel = any("/kernels/" in path for path in created)
        archives = [f"{CPU}/kernels.ir.xz", f"{CPU}/kernels.o.xz"] * is_kernel  # see above
        check_same([*structure, *archives, *changed(names, folder, edits)], generated)
    counted = re.search(r"^\| modules \| (\d+) ", (folder / "docs/structure.md").read_text("utf-8"), re.MULTILINE)[1]
    modules = [path for place in MODULES for path in folder.glob(place)]
    assert int(counted) == len(modules) > sum(1 for place in MODULES for _ in ROOT.glob(place))
    run_tests(folder, *LISTS)


def changed(names: Sequence[str], folder: Path, edited: Iterable[str]) -> list[str]:
    """The files of a copy that say of these names something else than the tree's, but for those that were edited."""
    found = []
    for path in itertools.chain(*((folder / name).rglob("*.*") for name in ("core", "docs", "examples", "plugins"))):
        place = path.relative_to(folder).as_posix()
        is_new = not (ROOT / place).exists() and has_one(names, path.name)
        is_written = path.suffix in (".md", ".json", ".pyi") or place == f"{OPS}/families.py"
        if is_new or (is_written and about(names, path) != about(names, ROOT / place)):
            found.append(place)
    return [place for place in found if place not in edited]


def about(names: Sequence[str], path: Path) -> list[str]:
    """The lines of a file that hold one of the names, or stand below a heading that does."""
    found, is_below = [], False
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("#"):
            is_below = has_one(names, line)
        if is_below or has_one(names, line):
            found.append(line)
    return found


def has_one(names: Sequence[str], text: str) -> bool:
    return any(name in text for name in names)


MODULES = ("core/atled/**/*.py", "contexts/atled_contexts/**/*.py", "plugins/*/src/**/*.py")


def generating() -> list[str]:
    """The commands of `make generated`, but for the one that writes the texts of kernels."""
    recipe = re.search(r"^generated:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[1]
    commands = [line.removeprefix("\t@$(RUN) ") for line in recipe.splitlines()]
    return [command for command in commands if command != "tools/kernel_texts.py"]


# All of them in one process, which is quicker than to import the library for each.
GENERATE = """
import runpy, sys
from atled.generators.pages import plots

plots.plot = lambda name: b""  # which pictures there are matters here; to draw them takes seconds
for command in sys.argv[1:]:
    words = command.split()
    is_module = words[0] == "-m"
    sys.argv = words[is_module:]
    try:
        (runpy.run_module if is_module else runpy.run_path)(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        assert not end.code, command
"""

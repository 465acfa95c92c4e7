"""The code and the facts of the pages hold: README, CONTRIBUTING, architecture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "examples/*/README.md", "plugins/*/README.md")
    for path in ROOT.glob(pattern)
)


def python_blocks(page):
    """The python blocks of a page, in order."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


def run(code, folder):
    """Run code in a fresh process with warnings as errors; what it printed."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ATLED_")}
    if "ATLED_CACHE_DIR" in os.environ:
        environment["ATLED_CACHE_DIR"] = os.environ["ATLED_CACHE_DIR"]
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_of_the_readme_runs_from_top_to_bottom(tmp_path):
    output = run("\n".join(python_blocks("README.md")), tmp_path)
    assert "[10. 20. 30.]" in output
    assert "Affine" in output
    assert (tmp_path / "xor.npz").exists()


def test_code_of_the_dispatch_page_runs_and_prints_what_it_says(tmp_path):
    pytest.importorskip("atled_sim")
    output = run("\n".join(python_blocks("docs/dispatch.md")), tmp_path)
    assert (tmp_path / "trace.json").exists()
    page = (ROOT / "docs/dispatch.md").read_text("utf-8")
    texts = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (explained,) = (text for text in texts if text.startswith("Tanh("))
    assert explained in output


@pytest.mark.parametrize(
    "page",
    [
        "docs/architecture.md",
        "docs/data.md",
        "docs/formulas.md",
        "docs/gradients.md",
        "docs/keras_backend.md",
        "docs/layers.md",
        "docs/programs.md",
        "docs/neon.md",
        "docs/nnabla_scripts.md",
        "docs/own_ops.md",
        "docs/speed.md",
    ],
)
def test_code_of_a_page_prints_what_its_comments_say(page, tmp_path):
    code = "\n".join(python_blocks(page))
    output = run(code, tmp_path)
    for said in re.findall(r"print\(.*\)  # (.*)$", code, re.MULTILINE):
        assert said in output


def test_each_section_of_the_speed_page_runs_by_itself(tmp_path):
    sections = re.split(r"^## ", (ROOT / "docs/speed.md").read_text("utf-8"), flags=re.MULTILINE)
    blocks = ["\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)) for text in sections]
    assert len([code for code in blocks if code]) > 9
    run(f"for code in {blocks!r}:\n    exec(code, {{}})", tmp_path)


def test_plugin_of_the_contributing_page_computes(tmp_path):
    (plugin,) = (block for block in python_blocks("CONTRIBUTING.md") if "PLUGIN" in block)
    use = """
import atled as nn
import atled.functions as F
from atled_contexts import register_plugin

register_plugin("mine", PLUGIN)
x = nn.Variable.from_numpy_array(np.array([-1.0, 2.0], np.float32))
with nn.context_scope(nn.Context(["mine:float", "reference:float"])):
    y = F.relu(x) + 1
with nn.trace() as trace:
    y.forward()
assert y.d.tolist() == [1.0, 3.0]
assert {row.op: row.backend for row in trace.rows()} == {"ReLU": "mine", "AddScalar": "reference"}
"""
    run(plugin + use, tmp_path)


def test_code_quoted_with_its_path_is_what_the_file_says():
    quoted = [block for block in python_blocks("CONTRIBUTING.md") if block.startswith("# core/")]
    assert quoted
    for block in quoted:
        head, code = block.split("\n", 1)
        assert code in (ROOT / head.removeprefix("# ")).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_files_and_headings_that_a_page_names_exist(page):
    path = ROOT / page
    text = path.read_text("utf-8")
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    linked = {(path.parent / file, heading) for file, _, heading in links if file}
    linked |= {(path, heading) for file, _, heading in links if not file}
    named = {
        ROOT / file
        for file in re.findall(
            r"`((?:core|contexts|plugins|tests|docs|tools|benchmarks|examples)/[\w/.-]+\.\w+)`", text
        )
    }
    assert [file for file in sorted({file for file, _ in linked} | named) if not file.exists()] == []
    assert [(file.name, heading) for file, heading in linked if heading and heading not in headings(file)] == []


def headings(path):
    """What links call the headings of a page."""
    found = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found}


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), {(ROOT / "README.md").resolve()}
    while waiting:
        path = waiting.pop()
        reached.add(path)
        links = re.findall(r"\]\(([^)#\s]+\.md)", path.read_text("utf-8"))
        waiting |= {(path.parent / link).resolve() for link in links if "://" not in link} - reached
    assert [page for page in PAGES if page.startswith("docs/") and ROOT / page not in reached] == []


def test_settings_of_the_readme_are_those_that_are_known_from_the_start(tmp_path):
    known = run(
        "import atled as nn\n"
        "from atled_contexts import declared_settings\n"
        "from atled_contexts.extras import settings_of_extras\n"
        "nn.get_current_context()  # looks for unknown names\n"
        "own = {s.name for s in declared_settings() if s.package in ('atled', 'atled_contexts')}\n"
        "print(*own | set(settings_of_extras()))\n",
        tmp_path,
    )
    listed = re.findall(r"^\| `(ATLED_\w+)`", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(known.split())

"""The examples of docs/files.md run."""

import re
from pathlib import Path

import pytest

import atled as nn

pytest.importorskip("google.protobuf")
pytest.importorskip("h5py")

PAGE = Path(__file__).parents[1] / "docs" / "files.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    nn.clear_parameters()
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})  # our own page
    assert capsys.readouterr().out == "1 ['mean', 'var']\n(1, 10)\n(16, 10)\n"
    nn.clear_parameters()

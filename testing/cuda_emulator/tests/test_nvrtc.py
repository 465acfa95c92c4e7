"""NVIDIA's compiler without a GPU: what kernels need, and a table of what they may need."""

from __future__ import annotations

import json

import pytest

from atled_cuda_emulator import needs, nvrtc

pytestmark = pytest.mark.skipif(nvrtc.unusable() is not None, reason=str(nvrtc.unusable()))

DOUBLE = '#define FACTOR {}\nextern "C" __global__ void times(float *x) {{ x[threadIdx.x] *= FACTOR; }}\n'
STACK = """
extern "C" __global__ void chosen(const int *places, float *y) {
    float kept[64];
    for (int i = 0; i < 64; i++) kept[i] = y[i];
    for (int i = 0; i < 64; i++) kept[places[i]] += 1;
    for (int i = 0; i < 64; i++) y[i] = kept[i];
}
"""


def test_texts_that_define_the_same_names_are_compiled_together_for_an_architecture():
    first, second = nvrtc.compile_texts([DOUBLE.format(2), DOUBLE.format(3)], "sm_75")
    assert list(first) == list(second) == ["times"]
    assert 0 < first["times"].registers < 64 and not first["times"].spilled and not first["times"].stack


def test_an_array_indexed_at_run_time_is_no_register():
    (found,) = nvrtc.compile_texts([STACK], "sm_90")
    assert found["chosen"].stack >= 256


def test_the_text_that_does_not_compile_is_named():
    with pytest.raises(nvrtc.NvrtcError, match=r"for sm_90:\ntext_1\(.*undefined"):
        nvrtc.compile_texts([DOUBLE.format(2), DOUBLE.format("unknown")], "sm_90")


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.cu").write_text(DOUBLE.format(2))
    (folder / "b.cu").write_text(STACK)
    return folder


def arguments(texts, *words: str) -> list[str]:
    return [str(texts), "--table", str(texts / "table.json"), "--architectures", "sm_75", "--processes", "1", *words]


def test_kernels_are_held_to_a_table(texts, capsys):
    assert needs.main(arguments(texts, "--write")) == 0
    assert needs.main(arguments(texts)) == 0
    path = texts / "table.json"
    table = json.loads(path.read_text())
    table["sm_75"]["chosen"]["stack"] -= 1
    del table["sm_75"]["times"]
    path.write_text(json.dumps(table))
    assert needs.main(arguments(texts)) == 1
    told = capsys.readouterr().out
    assert "times on sm_75: not in the table" in told and "chosen on sm_75: stack" in told


def test_registers_are_not_compared_with_those_of_another_compiler(texts):
    needs.main(arguments(texts, "--write"))
    path = texts / "table.json"
    table = json.loads(path.read_text())
    table["nvrtc"] = "1.0"
    table["sm_75"]["times"]["registers"] = 1
    path.write_text(json.dumps(table))
    assert needs.main(arguments(texts)) == 0


def test_of_many_variants_some_are_taken(texts, capsys):
    for factor in range(10):
        (texts / f"{factor}.cu").write_text(DOUBLE.format(factor))
    assert needs.main(arguments(texts, "--write", "--most", "3")) == 0
    table = json.loads((texts / "table.json").read_text())
    assert table["sm_75"]["times"]["variants"] == 3 and table["sm_75"]["chosen"]["variants"] == 1


def test_an_empty_folder_is_told(tmp_path, capsys):
    assert needs.main([str(tmp_path), "--table", "none"]) == 2
    assert "--cuda-texts" in capsys.readouterr().err


def test_a_table_that_is_not_there_is_told(texts, capsys):
    assert needs.main(arguments(texts)) == 2
    assert "--write makes it" in capsys.readouterr().err

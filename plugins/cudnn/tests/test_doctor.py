"""What `python -m atled doctor` shows of the plugin."""

from __future__ import annotations

from atled.doctor.self_test import self_test
from atled_cudnn.plugin import PLUGIN


def test_the_self_test_is_a_convolution(cudnn):
    found = self_test("cudnn", "0")
    assert (found["op"], found["passed"], found["error"]) == ("Convolution", True, "")


def test_the_facts_name_cudnn_and_its_place(fake):
    assert PLUGIN.atled_facts() == {"cuDNN": "9.28.0, fake_cudnn (given)"}

"""What a plugin says of itself is checked where it says it."""

import pytest

from atled_contexts import BackendInfo, PluginInfo


def test_backends_of_one_family_share_a_device():
    assert BackendInfo("a", host=True).device_family == BackendInfo("b", host=True).device_family
    assert BackendInfo("cuda").device_family == "cuda"
    assert BackendInfo("cudnn", device_family="cuda").device_family == "cuda"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: BackendInfo("a:b"), ValueError, "is not a name"),
        (lambda: BackendInfo("a", "float"), TypeError, r"write type_configs=\('float',\)"),
        (lambda: BackendInfo("a", ()), ValueError, "has no type config"),
        (lambda: BackendInfo("a", ("fl oat",)), ValueError, "is not a name"),
        (lambda: PluginInfo("a", "1", "d", "0"), ValueError, "is not 'major.minor'"),
        (lambda: PluginInfo("a", 1.0, "d", "0"), ValueError, "is not 'major.minor'"),
        (lambda: PluginInfo("a", "1.0", "d", "0", ("cpu",)), TypeError, "give BackendInfo objects"),
        (lambda: PluginInfo("a", "1.0", "d", "0", (), "cpu"), TypeError, r"write extension_names=\('cpu',\)"),
    ],
)
def test_wrong_descriptions_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()

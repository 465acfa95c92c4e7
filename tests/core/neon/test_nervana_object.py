"""Names and descriptions of objects."""

import numpy as np
import pytest

from atled.neon import NervanaObject


class Filling(NervanaObject):
    def __init__(self, val=0.0, name=None):
        super().__init__(name)
        self.val = val


class Holding(NervanaObject):
    def __init__(self, nout, init, others=(), scale=1.0, name=None, *rest, **more):
        super().__init__(name)
        self.nout, self.init, self.others, self.scale = nout, init, others, scale


def test_objects_without_a_name_are_numbered_by_class():
    class Fresh(NervanaObject):
        pass

    class Other(Fresh):
        pass

    assert [Fresh().name, Fresh().name, Other().name, Fresh("mine").name] == ["Fresh_0", "Fresh_1", "Other_0", "mine"]


def test_classes_are_named():
    assert Filling().classnm == "Filling"
    assert Filling().modulenm == f"{__name__}.Filling"


def test_a_description_has_what_differs_from_the_defaults():
    described = Holding(3, Filling(0.5, "f"), [Filling(name="g")], name="h").get_description()
    assert described == {
        "type": f"{__name__}.Holding",
        "config": {
            "nout": 3,
            "init": {"type": f"{__name__}.Filling", "config": {"val": 0.5, "name": "f"}},
            "others": [{"type": f"{__name__}.Filling", "config": {"name": "g"}}],
            "name": "h",
        },
    }
    assert Holding(3, None, name="h").get_description(skip=["init", "name"])["config"] == {"nout": 3}


def test_arrays_are_told_whatever_they_are_equal_to():
    assert Filling(np.zeros(3)).get_description()["config"]["val"].shape == (3,)


def test_objects_come_back_from_their_descriptions():
    pdict = {"init": Filling(0.5, "f").get_description(), "nout": 3}
    Filling.recursive_gen(pdict, "init")
    Filling.recursive_gen(pdict, "nout")
    made = Holding.gen_class(pdict)
    assert (type(made.init), made.init.val, made.init.name, made.nout) == (Filling, 0.5, "f", 3)


def test_names_of_neons_own_modules_mean_atleds():
    pdict = {"it": {"type": "neon.nervana_object.NervanaObject", "config": {"name": "n"}}}
    NervanaObject.recursive_gen(pdict, "it")
    assert pdict["it"].name == "n"


@pytest.mark.parametrize("name", ["os.system", "subprocess_of_mine.Popen", "builtins.dict", "nothing"])
def test_a_description_makes_nothing_but_such_objects(name):
    pdict = {"it": {"type": name, "config": {}}}
    with pytest.raises(ValueError, match="an object of type"):
        NervanaObject.recursive_gen(pdict, "it")
    assert pdict == {"it": {"type": name, "config": {}}}

"""What tools/house.py measures, on small trees; that its page is up to date."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import house  # after the path is set
from structure.imports import Code, read_revision
from structure.measures import compared, measure
from structure.order import UNTIL_THE_MOVE, Layer, Order, faults, read_order
from structure.rooms import Hall

LAYERS = (Layer("low", ("low",)), Layer("middle", ("left", "right")), Layer("high", ("high",)))


def tree(**rooms: str) -> Code:
    """Of each room of the core the text of its only file."""
    return Code({f"core/atled/{room}.py": text.encode() for room, text in rooms.items()})


def core(**rooms: str) -> Hall:
    return Hall("core", tree(**rooms))


def found(order: Order, **rooms: str) -> list[str]:
    every = {"low": "", "left": "", "right": "", "high": ""}
    return faults(order, tree(**{**every, **rooms}), "core")


def test_rooms_are_files_folders_contexts_and_plugins():
    paths = [
        "core/atled/__init__.py",
        "core/atled/errors.py",
        "core/atled/ops/__init__.py",
        "core/atled/ops/linear.py",
        "core/atled/graph/__init__.py",
        "core/atled/graph/run/binding.py",
        "core/atled/graph/forward.py",
        "contexts/atled_contexts/context.py",
        "plugins/sim/src/atled_sim/kernels/all.py",
    ]
    code = Code(dict.fromkeys(paths, b""))
    core = ["__init__", "atled_contexts", "errors", "graph", "ops", "plugins/atled_sim"]
    assert Hall("core", code).rooms == core
    assert Hall("graph", code).rooms == ["__init__", "forward", "run"]


def test_a_file_of_no_package_is_refused():
    with pytest.raises(ValueError, match=r"examples/mine\.py is in none of the packages"):
        Code({"examples/mine.py": b""})


@pytest.mark.parametrize(
    "text",
    [
        "import atled.low",
        "import numpy, atled.low as other",
        "from atled import low",
        "from atled.low import name",
        "from . import low",
        "from .low import name",
        "try:\n    import atled.low\nexcept ImportError:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    import atled.low",
        "try:\n    pass\nfinally:\n    import atled.low",
        "if sys.platform:\n    pass\nelse:\n    import atled.low",
        "with warnings:\n    import atled.low",
        "match sys.platform:\n    case 'linux':\n        import atled.low",
        "class A:\n    import atled.low",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import atled.low",
        "if not TYPE_CHECKING:\n    import atled.low",
    ],
)
def test_what_is_executed_at_import_makes_an_arrow(text):
    hall = core(high=text, low="", __init__="")
    assert hall.arrows == [("high", "low")]
    assert hall.typing_arrows == hall.call_arrows == []


@pytest.mark.parametrize(
    "text",
    [
        "if TYPE_CHECKING:\n    import atled.low",
        "if typing.TYPE_CHECKING:\n    from atled.low import A",
        "if not TYPE_CHECKING:\n    pass\nelse:\n    import atled.low",
        "if TYPE_CHECKING:\n    def f():\n        import atled.low",
    ],
)
def test_typing_is_counted_apart(text):
    hall = core(high=text, low="", __init__="")
    assert hall.typing_arrows == [("high", "low")]
    assert hall.arrows == hall.call_arrows == []


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import atled.low",
        "async def f():\n    if True:\n        import atled.low",
        "class A:\n    def f(self):\n        from atled import low",
    ],
)
def test_imports_inside_functions_make_no_arrow(text):
    hall = core(high=text, low="", __init__="")
    assert hall.arrows == hall.typing_arrows == []
    assert hall.call_arrows == [("high", "low")]


def test_an_arrow_is_no_typing_arrow_besides():
    hall = core(high="import atled.low\nif TYPE_CHECKING:\n    from atled.low import A", low="")
    assert (hall.arrows, hall.typing_arrows) == ([("high", "low")], [])


def test_names_that_a_package_passes_on_are_imports_of_its_file():
    code = Code(
        {"core/atled/__init__.py": b"", "core/atled/low.py": b"", "core/atled/high.py": b"from atled import low, A"}
    )
    assert Hall("core", code).arrows == [("high", "__init__"), ("high", "low")]


def test_relative_imports_start_at_the_package():
    sources = {
        "core/atled/graph/__init__.py": b"from .forward import f",
        "core/atled/graph/forward.py": b"from ..errors import E\nfrom .run import binding",
        "core/atled/graph/run/__init__.py": b"",
        "core/atled/graph/run/binding.py": b"from ... import errors\nfrom ..forward import f",
        "core/atled/errors.py": b"",
    }
    assert Hall("core", Code(sources)).arrows == [("graph", "errors")]
    assert Hall("graph", Code(sources)).arrows == [("__init__", "forward"), ("forward", "run"), ("run", "forward")]


def test_floors_count_the_rooms_of_the_longest_path_and_a_circle_as_one():
    hall = core(
        high="import atled.low, atled.left",
        left="import atled.right",
        right="import atled.left, atled.low",
        low="import atled.lowest",
        lowest="if TYPE_CHECKING:\n    import atled.low",
    )
    assert hall.floors == {"high": 4, "left": 3, "right": 3, "low": 2, "lowest": 1}


def test_circles_are_told_by_what_closes_them():
    typing = core(left="import atled.right", right="if TYPE_CHECKING:\n    import atled.left", low="import atled.left")
    assert typing.circles == [["left", "right"]]
    assert typing.is_typing_only(["left", "right"])
    real = core(left="import atled.right", right="import atled.low", low="import atled.left", high="import atled.low")
    assert real.circles == [["left", "low", "right"]]
    assert not real.is_typing_only(["left", "low", "right"])


def test_an_arrow_up_is_found_with_its_line():
    order = Order(LAYERS)
    assert found(order, high="import atled.left, atled.low", left="import atled.right") == []
    (fault,) = found(order, low="\nfrom atled.high import a")
    assert fault == "low -> high is an arrow up: core/atled/low.py:2 imports atled.high"
    (fault,) = found(order, low="if TYPE_CHECKING:\n    import atled.high")
    assert fault.startswith("low -> high (typing) is an arrow up")


def test_rooms_that_are_apart_do_not_import_each_other():
    order = Order((Layer("contract", ("call",)), Layer("plugins", ("plugins/*",), apart=True)))
    sources = {
        "plugins/a/src/atled_a/x.py": b"import atled.call",
        "plugins/b/src/atled_b/x.py": b"",
        "core/atled/call.py": b"",
    }
    assert faults(order, Code(sources), "core") == []
    sources["plugins/b/src/atled_b/x.py"] = b"import atled_a.x"
    (fault,) = faults(order, Code(sources), "core")
    assert fault.startswith("plugins/atled_b -> plugins/atled_a is an arrow up")


def test_a_circle_within_a_layer_is_found():
    (fault,) = found(Order(LAYERS), left="import atled.right", right="if TYPE_CHECKING:\n    import atled.left")
    assert fault == "left, right import each other: left -> right, right -> left"


def test_a_circle_of_modules_of_one_room_is_found():
    sources = {"core/atled/low/a.py": b"from atled.low import b", "core/atled/low/b.py": b"import atled.low.a"}
    order = Order((Layer("low", ("low",)),))
    (fault,) = faults(order, Code(sources), "core")
    assert fault.startswith("the modules atled.low.a, atled.low.b import each other")
    sources["core/atled/low/b.py"] = b"if TYPE_CHECKING:\n    import atled.low.a"
    assert faults(order, Code(sources), "core") == []


def test_an_exception_covers_its_arrow_in_its_kind():
    up = ("low", "high")
    for text, typing in (("import atled.high", ()), ("if TYPE_CHECKING:\n    import atled.high", (up,))):
        assert found(Order(LAYERS, {up: "because"}, typing), low=text) == []
    # What is excepted for typing is not for execution.
    assert len(found(Order(LAYERS, {up: "because"}, (up,)), low="import atled.high")) == 2
    circle = Order(LAYERS, {("right", "left"): "because"}, {("right", "left")})
    assert found(circle, left="import atled.right", right="if TYPE_CHECKING:\n    import atled.left") == []


@pytest.mark.parametrize(
    "arrow, rooms",
    [
        (("low", "high"), {}),
        (("high", "low"), {"high": "import atled.low"}),
        (("right", "left"), {"right": "import atled.left"}),
        (("low", "high"), {"low": "def f():\n    import atled.high"}),
    ],
)
def test_an_exception_that_is_not_needed_is_found(arrow, rooms):
    (fault,) = found(Order(LAYERS, {arrow: "because"}), **rooms)
    assert fault == f"the exception {arrow[0]} -> {arrow[1]} is not needed: take it off the list"


def test_while_rooms_move_only_lasting_exceptions_must_be_needed():
    until = {("low", "high"): UNTIL_THE_MOVE}
    assert found(Order(LAYERS, until, moving=True)) == []
    assert len(found(Order(LAYERS, until))) == 1
    assert len(found(Order(LAYERS, {("low", "high"): "because"}, moving=True))) == 1


def test_rooms_and_places_belong_together():
    (fault,) = found(Order(LAYERS), new="")
    assert fault.startswith("new is not placed")
    (fault,) = found(Order((*LAYERS, Layer("roof", ("roof",)))))
    assert fault.startswith("roof has a place and does not exist")


def test_a_former_name_counts_as_the_room_of_now():
    order = Order(LAYERS, former={"old": "low"}, moving=True)
    assert found(order, old="import atled.low", low="if TYPE_CHECKING:\n    import atled.old") == []
    (fault,) = found(order, old="import atled.high")
    assert fault.startswith("low -> high is an arrow up: core/atled/old.py:1")
    (fault,) = found(Order(LAYERS, former={"old": "low"}), old="")
    assert fault.startswith("old is a former name of low")


def test_what_became_one_room_was_not_apart():
    order = Order((Layer("low", ("low", "cellar"), apart=True),), former={"old": "low", "older": "low"})
    assert order.upward([("old", "older"), ("old", "low"), ("old", "cellar")]) == [("old", "cellar")]


def test_private_names_stay_in_their_room():
    order = Order(LAYERS)
    (fault,) = found(order, high="def f():\n    from atled.low import a, _b, __version__")
    assert fault == "core/atled/high.py:2 imports the private name _b of atled.low, of another room"
    listed = Order(LAYERS, private={("high", "atled.low", "_b"): "because"})
    assert found(listed, high="from atled.low import _b") == []
    (fault,) = found(listed)
    assert fault == "the exception of _b of atled.low in high is not needed: take it off the list"


def test_exceptions_have_reasons(tmp_path):
    text = "moving = false\n[core]\nlayers = []\nprivate = []\nformer = {}\nexceptions = [%s]\n"
    row = '{ room = "a", imports = "b", typing = false, reason = "%s" }'
    path = tmp_path / "order.toml"
    path.write_text(text % row % "because")
    assert read_order(path)["core"].exceptions == {("a", "b"): "because"}
    path.write_text(text % row % "")
    with pytest.raises(ValueError, match="empty reason"):
        read_order(path)
    path.write_text(text % f"{row % 'because'}, {row % 'for'}")
    with pytest.raises(ValueError, match="listed twice"):
        read_order(path)


def test_measures_and_their_ratio():
    hall = core(low="import atled.high\nfrom atled.left import _a", left="import atled.low", high="", new="")
    after = measure(hall, Order(LAYERS))
    assert after == {
        "modules": 4,
        "rooms": 4,
        "arrows": 3,
        "typing arrows": 0,
        "arrows of calls": 0,
        "floors": 2,
        "circles": 1,
        "rooms in circles": 2,
        "circles by typing only": 0,
        "circles of modules": 1,
        "arrows up": 2,
        "typing arrows up": 0,
        "arrows of calls up": 0,
        "rooms without a place": 1,
        "private names taken": 1,
    }
    rows = compared({**after, "arrows": 4, "circles": 0}, after)
    assert rows[:4] == [
        ["", "before", "after", "ratio"],
        ["modules", "4", "4", "1.00"],
        ["rooms", "4", "4", "1.00"],
        ["arrows", "4", "3", "0.75"],
    ]
    assert ["circles", "0", "1", "-"] in rows
    assert ["typing arrows", "0", "0", "1.00"] in rows


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit, in which errors imports ops, and a checkout in which it is the other way round."""
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    for path in (
        "core/atled/ops/linear.py",
        "core/atled/errors.py",
        "contexts/atled_contexts/a.py",
        "plugins/a/src/a/b.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "core/atled/errors.py").write_text("import atled.ops.linear")
    (tmp_path / "core/atled/errors.txt").write_text("no module")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "core/atled/errors.py").write_text("")
    (tmp_path / "core/atled/ops/linear.py").write_text("import atled.errors")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    return tmp_path


def test_a_revision_is_measured_as_it_was(checkout, capsys):
    assert read_revision(checkout, "HEAD").imports[0].source == "atled.errors"
    assert house.main(["--json", "--before", "HEAD"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["before"]["core"]["arrows up"] == [["errors", "ops"]]
    assert shown["after"]["core"]["arrows"] == [["ops", "errors"]]
    assert house.main(["--before", "HEAD"]) == 0
    assert ["arrows", "up", "1", "0", "0.00"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_the_arrows_of_a_room_are_shown_with_their_lines(checkout, capsys):
    assert house.main(["--arrows", "errors"]) == 0
    line = "    core/atled/ops/linear.py:1 atled.errors (import)"
    assert capsys.readouterr().out.splitlines() == ["errors is imported by ops", line]


def test_the_numbers_come_with_what_is_wrong(checkout, capsys):
    (checkout / "core/atled/errors.py").write_text("if TYPE_CHECKING:\n    import atled.ops.linear")
    (checkout / "core/atled/shed.py").write_text("")
    assert house.main([]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["core", "graph"]
    assert "core: circle by typing only: errors, ops" in shown
    assert "core: shed is not placed: give it a layer in order.toml" in shown


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--arrows", "eror"], "there is no room eror: errors?"),
        (["--before", "nowhere"], "git cannot read revision nowhere"),
        (["--before", "HEAD", "--write"], "--before goes with the numbers"),
    ],
)
def test_what_is_not_there_is_told(checkout, capsys, arguments, says):
    with pytest.raises(SystemExit, match="2"):
        house.main(arguments)
    assert says in capsys.readouterr().err


def test_the_page_is_up_to_date():
    assert house.PAGE.read_text("utf-8") == house.page(house.read_checkout(house.ROOT), read_order()), (
        "run make generated"
    )

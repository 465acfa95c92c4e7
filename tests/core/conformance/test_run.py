"""The kit as a program: its options, expected failures, report and badge."""

import json
from xml.etree import ElementTree

import pytest

from atled.conformance import pytest_hooks  # noqa: F401  # imported once here: pytester forgets what a run imports

pytest_plugins = "pytester"

SHELF = "atled.conformance.broken.shelf:PLUGIN"
WRONG = "atled.conformance.broken.wrong_value:PLUGIN"
VALUES = "atled.conformance.test_values::test_values"


@pytest.fixture
def kit(pytester):
    """Run the kit: `kit(*arguments)`; the result, with the lines it printed and the report."""

    def run(*arguments, target=VALUES):
        done = pytester.runpytest_inprocess(
            "-p", "atled_pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--pyargs", target, *arguments
        )  # fmt: skip
        path = pytester.path / "report.json"
        done.report = json.loads(path.read_text()) if path.exists() else None
        return done

    return run


def test_other_runs_do_not_know_the_options(pytester):
    pytester.makepyfile("def test_nothing(pytestconfig): assert not hasattr(pytestconfig.option, 'max_examples')")
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--device')")
    done = pytester.runpytest_inprocess("-p", "atled_pytest", "-p", "no:cacheprovider", "--device", "0")
    done.assert_outcomes(passed=1)


def test_the_report_says_what_was_checked(kit, pytester):
    done = kit("--atled-plugin", SHELF, "--atled-ops", "Tanh,Sum", "--device", "1", "--atled-report", "report.json")
    assert done.ret == 0
    report = done.report
    assert (report["plugin"], report["version"], report["device"]) == ("shelf", "0.1", "1")
    assert report["atled_version"] and report["date"] and report["seconds"] >= 0
    assert report["checks"] == {"values": {"passed": report["passed"]}}
    assert (report["failed"], report["skipped"], report["xfailed"], report["failures"]) == (0, 0, 0, [])
    assert report["ops"] == ["Tanh", "Sum"]
    assert not report["complete"]
    assert not report["conformant"], "a part of the kit proves nothing about the rest"


def test_a_failure_is_in_report_and_badge(kit, pytester):
    done = kit(
        "--atled-plugin", WRONG, "--atled-ops", "Tanh", "--atled-report", "report.json", "--atled-badge", "badge.svg"
    )  # fmt: skip
    assert done.ret == 1
    assert done.report["failed"] == len(done.report["failures"]) > 0
    failure = done.report["failures"][0]
    assert (failure["check"], failure["op"], failure["case"]) == ("values", "Tanh", "Tanh-0-float")
    badge = (pytester.path / "badge.svg").read_text()
    assert f"{done.report['failed']} of {done.report['failed'] + done.report['passed']} failed" in badge
    assert ElementTree.fromstring(badge).tag.endswith("svg")


def test_an_expected_failure_is_counted_as_one(kit, pytester):
    (pytester.path / "xfail").write_text("# not yet\n\nvalues::Tanh::a rational approximation so far\n")
    done = kit(
        "--atled-plugin", WRONG, "--atled-ops", "Tanh", "--atled-xfail", "xfail", "--atled-report", "report.json"
    )
    assert done.ret == 0
    assert done.report["xfailed"] > 0
    assert done.report["failed"] == 0


def test_an_expected_failure_can_name_one_case(kit, pytester):
    (pytester.path / "xfail").write_text("values::Tanh-0-float::so far\n")
    done = kit(
        "--atled-plugin", WRONG, "--atled-ops", "Tanh", "--atled-xfail", "xfail", "--atled-report", "report.json"
    )
    assert done.report["xfailed"] == 1
    assert done.report["failed"] > 0


def test_an_expected_failure_that_passes_fails_the_run(kit, pytester):
    (pytester.path / "xfail").write_text("values::Tanh::was wrong once\n")
    done = kit(
        "--atled-plugin", SHELF, "--atled-ops", "Tanh", "--atled-xfail", "xfail", "--atled-report", "report.json"
    )
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*xfail:1: values::Tanh expects a failure (was wrong once), but all * cases pass*"])
    assert done.report["failed"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "*add --atled-plugin NAME*"),
        (("--atled-plugin", "refrence"), "*did you mean 'reference'*"),
        (("--atled-plugin", "atled.nowhere:PLUGIN"), "*No module named*"),
        (("--atled-plugin", SHELF, "--device", "7"), "*has no such device*"),
        (("--atled-plugin", SHELF, "--atled-ops", "Sum,Tanhh"), "*did you mean 'Tanh'*"),
        (("--atled-plugin", SHELF, "--atled-ops", "Pool*"), "*no op has such a name*"),
        (("--atled-plugin", SHELF, "--atled-xfail", "nowhere"), "*FileNotFoundError*"),
        (("--atled-plugin", SHELF, "--atled-report", "nowhere/report.json"), "*is no folder to write to*"),
    ],
)
def test_a_mistake_ends_the_run_before_it_starts(kit, arguments, words):
    done = kit(*arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([words])


def test_a_line_that_is_no_expected_failure_is_an_error(kit, pytester):
    (pytester.path / "xfail").write_text("values: Tanh\n")
    done = kit("--atled-plugin", SHELF, "--atled-xfail", "xfail")
    done.stderr.fnmatch_lines(["*line 1: 'values: Tanh': not an expected failure*"])


def test_an_unusable_plugin_is_named_with_reason_and_remedy(kit, pytester, monkeypatch):
    pytester.syspathinsert()
    pytester.makepyfile(
        sick_plugin="""
        from atled.conformance.broken.shelf import ShelfPlugin
        from atled_contexts import Unusable, hookimpl

        class Sick(ShelfPlugin):
            @hookimpl
            def atled_probe(self):
                return Unusable("there is no shelf", "buy one")

        PLUGIN = Sick()
        """
    )
    done = kit("--atled-plugin", "sick_plugin:PLUGIN")
    done.stderr.fnmatch_lines(["*there is no shelf*"])
    done.stderr.fnmatch_lines(["*buy one*"])


def test_nothing_stays_registered_after_a_run(kit):
    from atled_contexts import plugins

    before = [record.name for record in plugins()]
    kit("--atled-plugin", SHELF, "--atled-ops", "Tanh")
    kit("--atled-plugin", SHELF, "--device", "7")
    assert [record.name for record in plugins()] == before

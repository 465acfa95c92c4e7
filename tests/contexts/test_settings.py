"""Settings: typed, read once, misspellings named."""

import pytest

from atled_contexts import (
    SettingError,
    declare_setting,
    declared_settings,
    parse_bool,
    parse_choice,
    parse_int,
    parse_names,
    parse_text,
    reload_plugins,
    setting,
    setting_source,
)


def test_an_unset_or_empty_setting_has_its_default(monkeypatch):
    declare_setting("ATLED_NUMBER", parse_int, 7, "a number")
    assert setting("ATLED_NUMBER") == 7 and setting_source("ATLED_NUMBER") == "default"
    reload_plugins()
    monkeypatch.setenv("ATLED_NUMBER", "")
    assert setting("ATLED_NUMBER") == 7 and setting_source("ATLED_NUMBER") == "default"


def test_the_environment_is_read_once_and_anew_after_a_reload(monkeypatch):
    declare_setting("ATLED_NUMBER", parse_int, 7, "a number")
    monkeypatch.setenv("ATLED_NUMBER", "8")
    assert setting("ATLED_NUMBER") == 8 and setting_source("ATLED_NUMBER") == "environment"
    monkeypatch.setenv("ATLED_NUMBER", "9")
    assert setting("ATLED_NUMBER") == 8
    reload_plugins()
    assert setting("ATLED_NUMBER") == 9


def test_a_value_that_does_not_parse_is_an_error_every_time(monkeypatch):
    monkeypatch.setenv("ATLED_FALLBACK", "warm")
    for _ in range(2):
        with pytest.raises(SettingError) as caught:
            setting("ATLED_FALLBACK")
    assert str(caught.value) == (
        "ATLED_FALLBACK='warm': is none of raise, warn, quiet; did you mean 'warn'?\n"
        "Considered: it means: what a fallback does: raise, warn or quiet\n"
        "What to do: correct it or unset ATLED_FALLBACK"
    )


def test_an_undeclared_setting_gets_the_nearest():
    with pytest.raises(SettingError, match="did you mean 'ATLED_FALLBACK'"):
        setting("ATLED_FALLBAK")


def test_declaring_the_same_twice_is_fine_and_otherwise_an_error():
    declare_setting("ATLED_NUMBER", parse_int, 7, "a number")
    declare_setting("ATLED_NUMBER", parse_int, 7, "a number")
    with pytest.raises(SettingError, match="declared already, with another meaning"):
        declare_setting("ATLED_NUMBER", parse_int, 8, "a number")
    assert [known.name for known in declared_settings()].count("ATLED_NUMBER") == 1


@pytest.mark.parametrize("name", ["NUMBER", "ATLED_", "ATLED_number"])
def test_a_setting_has_the_prefix_and_capitals(name):
    with pytest.raises(SettingError, match="write ATLED_NAME in capitals"):
        declare_setting(name, parse_int, 0, "a number")


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bool, "0", False),
        (parse_bool, "No", False),
        (parse_bool, " on ", True),
        (parse_bool, "1", True),
        (parse_int, " 12 ", 12),
        (parse_names, "a, b,,c ", ("a", "b", "c")),
        (parse_text, " /x y ", "/x y"),
        (parse_choice("a", "b"), "b", "b"),
    ],
)
def test_parsers(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(("parse", "text"), [(parse_bool, "2"), (parse_int, "1.5"), (parse_choice("a"), "b")])
def test_parsers_refuse(parse, text):
    with pytest.raises(ValueError, match=r"is (neither|not|none)"):
        parse(text)

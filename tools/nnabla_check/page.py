"""The page with the results."""


def page(cases, differences):
    return ""

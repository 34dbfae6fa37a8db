"""Which methods and keywords estimators of a kind have: tables made from the classes.

``.. siblings:: BoostedBayesianLinearRegression, OnlineBayesianLinearRegression`` lists
what all of these have, and is a table of the rest.
"""

import inspect

from sklearn.base import BaseEstimator

import skboost

# Of every estimator of scikit-learn, and what pipelines are told by.
_OF_ALL = {"set_callbacks", *dir(BaseEstimator)}
_GIVEN = {"self", "X", "y"}


def abilities(kind):
    """Public methods of a class, and the set of keywords of each."""
    return {
        name: set(inspect.signature(method).parameters) - _GIVEN
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_")
        and not name.endswith("_request")
        and name not in _OF_ALL
    }


def siblings(names):
    """Methods that all classes have alike, and a row for each other one.

    A cell has the keywords that not all with this method have; None is no method.
    """
    of = {name: abilities(getattr(skboost, name)) for name in names}
    alike, rows = [], {}
    for method in sorted(set().union(*of.values())):
        having = [own[method] for own in of.values() if method in own]
        shared = set.intersection(*having)
        if len(having) == len(names) and all(own == shared for own in having):
            alike.append(method)
            continue
        rows[method] = {
            name: own[method] - shared if method in own else None
            for name, own in of.items()
        }
    return alike, rows


def text_of(names):
    """Both as lines of reStructuredText."""
    alike, rows = siblings(names)
    lines = [f"All have {', '.join(f'``{one}``' for one in alike)}.", ""]
    lines += [".. list-table::", "   :header-rows: 1", ""]
    table = [["", *(f":class:`~skboost.{name}`" for name in names)]]
    for method, cells in rows.items():
        shown = [
            "" if own is None else ", ".join(f"``{one}``" for one in sorted(own)) or "✓"
            for own in cells.values()
        ]
        table.append([f"``{method}``", *shown])
    for row in table:
        lines += [f"   {'  ' if k else '* '}- {cell}" for k, cell in enumerate(row)]
    return [*lines, ""]


def add_siblings(app):
    """The directive."""
    # Tests read tables without docutils.
    from docutils.parsers.rst import Directive

    class Siblings(Directive):
        required_arguments, final_argument_whitespace = 1, True

        def run(self):
            names = self.arguments[0].replace(",", " ").split()
            self.state_machine.insert_input(text_of(names), "siblings")
            return []

    app.add_directive("siblings", Siblings)

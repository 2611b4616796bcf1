"""An oracle that invents: random typed expression trees, in Spark and here.

The templates of :mod:`tests.parity.templates` are its grammar. A template's columns are *holes*;
what fills one has the type of the column: a column, a literal, another template, or a form that
fits every type, such as ``CASE WHEN``. ``python -m tests.parity.invented --help`` tells how to run
it, :mod:`tests.parity.invented.player` what it compares.
"""

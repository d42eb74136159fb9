"""A plugin of pytest for tests/faults.py: executed lines, order, reports.

The variable `KDKIT_FAULTS` is the path of what a process is to do, as JSON.
"""

import contextlib
import importlib
import json
import os
import sys
import threading
import time

import coverage
import pytest

PLAN = {}
if "KDKIT_FAULTS" in os.environ:
    with open(os.environ["KDKIT_FAULTS"]) as plan:
        PLAN = json.load(plan)
IMPORT_FAILED = 90  # the exit status if the changed module cannot be imported


def pytest_configure(config):
    if "lines" in PLAN:
        config.pluginmanager.register(_Lines(PLAN["lines"]))


def pytest_sessionstart():
    try:
        importlib.import_module(PLAN.get("module", "kdkit"))
    except Exception as error:  # whatever a changed module raises
        pytest.exit(repr(error), IMPORT_FAILED)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    place = {test: number for number, test in enumerate(PLAN.get("tests", ()))}
    items.sort(key=lambda item: place.get(item.nodeid, 0))


def pytest_collectreport(report):
    if report.failed:
        _write(report.nodeid, "failed")


def pytest_runtest_logstart(nodeid):
    _write(nodeid, "started")


def pytest_runtest_logreport(report):
    # A test has passed after its call, even if its setup was what took long.
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome)


def _write(test, outcome):
    with open(PLAN["report"], "a") as file:
        file.write(json.dumps([test, outcome, time.time()]) + "\n")


class _Lines:
    """Notes executed lines by test; those of shared fixtures by test file."""

    def __init__(self, path):
        self._context = ""
        self._coverage = coverage.Coverage(
            path, source=["kdkit"], config_file=False
        )
        for option, value in (
            ("run:relative_files", True),
            ("run:disable_warnings", ["trace-changed", "no-data-collected"]),
        ):
            self._coverage.set_option(option, value)
        self._coverage.start()

    @contextlib.contextmanager
    def _within(self, context):
        outer, self._context = self._context, context
        self._coverage.switch_context(context)
        yield
        self._context = outer
        self._coverage.switch_context(outer)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        with self._within(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        test = self._context
        if fixturedef.scope != "function":
            test = test.partition("::")[0]
        with self._within(test):
            return (yield)

    def pytest_collection_finish(self):
        """Has lines traced that TensorFlow runs in threads or rewrites."""
        tf = sys.modules.get("tensorflow")
        if tf is None:
            return
        rules = importlib.import_module(
            "tensorflow.python.autograph.core.config"
        )
        own = rules.DoNotConvert("kdkit")
        rules.CONVERSION_RULES = (own, *rules.CONVERSION_RULES)
        from_generator = tf.data.Dataset.from_generator
        numpy_function = tf.numpy_function

        def of_generator(made, *others, **named):
            return from_generator(
                lambda *values: _each_traced(made(*values)), *others, **named
            )

        def of_function(function, *others, **named):
            def run(*values):
                _trace()
                return function(*values)

            return numpy_function(run, *others, **named)

        tf.data.Dataset.from_generator = staticmethod(of_generator)
        tf.numpy_function = of_function

    def pytest_unconfigure(self):
        self._coverage.stop()
        self._coverage.save()


def _trace():
    """Begins to trace a thread that Python did not start."""
    if sys.gettrace() is None:
        sys.settrace(threading.gettrace())


def _each_traced(iterable):
    iterator = iter(iterable)
    _trace()
    for value in iterator:
        yield value
        _trace()  # the thread may be another one

"""Runs one of N shares of the tests of a Python module: unittest_shard.py SHARE N MODULE."""
import sys
import unittest


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


share, shares, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
sys.path.insert(0, ".")
own = list(tests_of(unittest.defaultTestLoader.loadTestsFromName(module)))[share - 1::shares]
sys.exit(not unittest.TextTestRunner().run(unittest.TestSuite(own)).wasSuccessful())

#!/usr/bin/env bash
# Builds what one test needs and runs it, with the environment that ctest gives it:
#   tests/one.sh Transparency.GradientsAddUpOnRequest     a case of GoogleTest, or a pattern: 'Transparency.*'
#   tests/one.sh cli.texts                                a test of ctest
#   tests/one.sh cli.texts.Texts.test_golden              one method, or one class, of a Python test
# BUILD names the build folder, else build/dev; a folder that is not configured yet is made with the preset of its name.
exec python3 "$(dirname "${BASH_SOURCE[0]}")/support/one_test.py" "$@"

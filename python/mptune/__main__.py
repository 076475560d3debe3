"""`python -m mptune ARGUMENTS` is the program `mptune ARGUMENTS`; so is the command that the package installs."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

from mptune._error import Error
from mptune._program import environment, program


def main() -> NoReturn:
    """Becomes the program. Where it is not there: one line on stderr and exit code 7, as the program itself would."""
    try:
        os.execve(program(), ["mptune", *sys.argv[1:]], environment())
    except Error as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

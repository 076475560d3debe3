"""The one class of errors."""
from __future__ import annotations


class Error(Exception):
    """Says `what` is wrong, `where`, and the `remedy`, one clause each.

    `exit_code` is the program's: 2 bad usage or input, 3 nothing fits the memory, 6 the time was over before a first result, 7 the
    environment, 130 interrupted; `mptune help exit-codes` lists all. str() is the line that the program prints.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "", exit_code: int = 2) -> None:
        super().__init__(what, where, remedy, exit_code)
        self.what, self.where, self.remedy, self.exit_code = what, where, remedy, exit_code

    def __str__(self) -> str:
        return f"mptune: {self.what}" + (f": {self.where}" if self.where else "") + (f"; {self.remedy}" if self.remedy else "")


Error.__module__ = "mptune"

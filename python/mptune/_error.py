"""The one class of errors."""
from __future__ import annotations

import re

_ONLY_OF_THE_PROGRAM = ("help", "version", "json", "color", "quiet", "with")
_OPTION = re.compile(r"(?<![\w/.=-])--([a-z][a-z-]*)(?:[ =]([A-Z]+|[\w.%]*\d[\w.%]*)(?![\w-]))?")


def in_python(text: str) -> str:
    """A text of the program with its options as parameters of functions. Commands in backquotes are for a shell and stay."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _with_parameters(part) for part in parts)


def _with_parameters(text: str) -> str:
    text = re.sub(r"\bmptune ([a-z]+) --help\b", r"help(mptune.\1)", text)
    return re.sub(r"(?<![\w/.-])-o(?![\w-])", "output=", _OPTION.sub(_parameter, text))


def _parameter(option: re.Match[str]) -> str:
    from mptune import _commands  # which imports this module

    name, value = option[1].replace("-", "_"), option[2]
    if option[1] in _ONLY_OF_THE_PROGRAM:
        return option[0]
    if name in _commands.FLAGS:
        return f"{name}=True" + option[0][2 + len(option[1]):]
    if value is None or re.fullmatch(r"[A-Z]+|\d+(\.\d+)?", value):
        return f"{name}={value or ''}"
    return f'{name}="{value}"'


class Error(Exception):
    """Says `what` is wrong, `where`, and the `remedy`, one clause each.

    `exit_code` is the program's: 2 bad usage or input, 3 nothing fits the memory, 6 no time for a first result, 7 the
    environment, 130 interrupted; `mptune help exit-codes` lists all. str() is the line that the program prints, but that an option
    `--split-size` is called `split_size=`, outside of commands in backquotes.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "", exit_code: int = 2) -> None:
        what, where, remedy = in_python(what), in_python(where), in_python(remedy)
        super().__init__(what, where, remedy, exit_code)
        self.what, self.where, self.remedy, self.exit_code = what, where, remedy, exit_code

    def __str__(self) -> str:
        return f"mptune: {self.what}" + (f": {self.where}" if self.where else "") + (f"; {self.remedy}" if self.remedy else "")


Error.__module__ = "mptune"

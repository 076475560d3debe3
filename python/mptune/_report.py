"""Reports of studies, traces and plans, which notebooks show."""
from __future__ import annotations

import html
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mptune._program import run


@dataclass(frozen=True)
class Report:
    """A page that works offline, with its pictures, for light and dark screens. A notebook shows it as the last value of a cell."""

    html: str  #: the whole page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<mptune.Report of {len(self.html)} characters of HTML>"

    def _repr_html_(self) -> str:
        """In a frame: the page's styles and those of the notebook do not mix."""
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width: 100%; height: 40em; border: 0"></iframe>'


def report(path: str | os.PathLike[str]) -> Report:
    """The report of a study's folder, a trace file or a plan file, as `mptune report` writes it. Raises mptune.Error."""
    name = os.fspath(path)
    with tempfile.TemporaryDirectory(prefix="mptune-") as folder:
        page = Path(folder) / "report.html"
        run("report", [f"--output={page}", os.path.join(".", name) if name.startswith("-") else name], progress=False)
        return Report(page.read_text(encoding="utf-8"))

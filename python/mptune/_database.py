"""Reads SQLite files that anyone can have cut short, damaged or made to do harm."""
from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from mptune._error import Error

_MAGIC = b"SQLite format 3\0"
_DAMAGED = "record or copy it again"
_LONGEST_TEXT = 100_000_000  # a damaged row of a few bytes can claim a gigabyte
_OPERATIONS_PER_CALL = 1000


class Database:
    """A file that is only read. `kind` says in errors what should have been given. All that SQLite says becomes an Error."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.header = _header(self.path, kind)
        self._connection = self._open()
        self._calls_left = 0

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, within the work that a file of this size can take: pages of a damaged file can refer to each other."""
        self._calls_left = 1000 + os.stat(self.path).st_size // 50
        with self._errors():
            return self._connection.execute(query, parameters).fetchall()

    def has_table(self, name: str) -> bool:
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name]))

    def refuse(self, what: str, where: str = "", remedy: str = _DAMAGED) -> Error:
        return Error(what, self.path + (f", {where}" if where else ""), remedy)

    def number(self, place: int) -> int:
        """The 4-byte number of the file's header at `place`: 60 is the user version, 68 the application id."""
        return int.from_bytes(self.header[place:place + 4], "big")

    def _open(self) -> sqlite3.Connection:
        uri = "file:" + quote(os.path.abspath(self.path))
        with self._errors():
            try:
                return self._connected(f"{uri}?mode=ro")
            except sqlite3.OperationalError:
                # In a folder that can't be written to, SQLite can't make the shared memory of a write-ahead log.
                return self._connected(f"{uri}?mode=ro&immutable=1")

    def _connected(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=2)
        connection.text_factory = lambda text: text.decode(errors="replace")
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
        connection.execute("PRAGMA trusted_schema = OFF")
        self._calls_left = 1000
        connection.set_progress_handler(self._stop, _OPERATIONS_PER_CALL)
        others = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' OR sql LIKE 'CREATE VIRTUAL%'").fetchone()
        if others:  # can run a query that never ends, or return rows that are not in the file
            raise self.refuse(f"'{str(others[0])[:40]}' is a view", remedy=f"name a {self.kind}")
        return connection

    def _stop(self) -> int:
        self._calls_left -= 1
        return int(self._calls_left < 0)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError, OverflowError, MemoryError) as error:
            reason = str(error)
            if "locked" in reason:
                raise self.refuse("another program is writing the file", remedy="wait until it has ended") from error
            raise self.refuse(f"the file is damaged, or has another layout ({reason or type(error).__name__})") from error


def _header(path: str, kind: str) -> bytes:
    """The first 100 bytes. SQLite itself would fill a last page that is cut short with zeros."""
    remedy = f"name a {kind}"
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise Error("this is not a file", path, remedy)
        with open(path, "rb") as file:
            header = file.read(100)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Error(f"it can't be opened: {reason}", repr(path)[1:-1], "check the name and the permissions of the file") from error
    if not header.startswith(_MAGIC[:len(header)]) or not header:
        raise Error("this is not an SQLite file", path, remedy)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    if len(header) < 100 or status.st_size < pages * (65536 if page == 1 else page):
        raise Error("the file is cut short", path, _DAMAGED)
    return header

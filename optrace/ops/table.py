"""The loaded table: rows by name, signatures by name."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from optrace.errors import OpTableError
from optrace.ops.files import own_files, read, user_files
from optrace.ops.homes import public_names
from optrace.ops.schema import Row
from optrace.ops.signature import Signature, parse


def framework_of(api: str) -> str:
    return api.partition(".")[0]


class Table:
    """Rows in the order of loading; a name may stand in several."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: list[Row] = []
        self.by_name: dict[str, Row] = {}
        self._entries: dict[str, list[tuple[Row, str]]] = {}
        self._patterns: dict[str, list[tuple[Row, str]]] = {}
        self._signatures: dict[str, list[tuple[Row, Signature]]] = {}
        self._jobs: dict[str, frozenset[str]] = {}
        self.add(rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows. Raises ``OpTableError`` when a row's name is taken."""
        new: dict[str, Row] = {}
        for row in rows:
            other = self.by_name.get(row.name) or new.get(row.name)
            if other is not None:
                raise OpTableError(
                    f"{row.file}: row {row.name}, field name: already taken by a row of {other.file}"
                )
            new[row.name] = row
        self.by_name.update(new)
        for row in new.values():
            self.rows.append(row)
            # A name belongs to the side it stands on, whatever package it comes from (a user's custom ops).
            for entries in (row.torch, row.paddle):
                for entry in entries:
                    name = entry.partition("(")[0].strip()
                    place = self._patterns if "*" in name else self._entries
                    place.setdefault(name, []).append((row, entry))
        # drop what was looked up before and not found
        self._entries = {name: entries for name, entries in self._entries.items() if entries}
        self._signatures.clear()
        self._jobs.clear()

    def rows_of(self, api: str) -> list[Row]:
        """The rows that hold a name, else those of the first pattern that fits (``paddle._C_ops.*_grad``).

        A name of the module that defines something stands for its public one (``optrace/ops/homes.py``).
        """
        if api not in self._entries:
            matches = [e for pattern, e in self._patterns.items() if fnmatchcase(api, pattern)]
            matches += [self._entries[name] for name in public_names(api) if self._entries.get(name)]
            self._entries[api] = matches[0] if matches else []
        return list(dict.fromkeys(row for row, _ in self._entries[api]))

    def side_of(self, row: Row, api: str) -> str:
        """The framework on whose side ``api`` stands in ``row``."""
        names = row.names("torch")
        return "torch" if api in names or any(name in names for name in public_names(api)) else "paddle"

    def jobs_of(self, api: str) -> frozenset[str]:
        if api not in self._jobs:
            self._jobs[api] = frozenset(row.job or row.name for row in self.rows_of(api))
        return self._jobs[api]

    def rows_for(self, job: str) -> list[Row]:
        return [row for row in self.rows if (row.job or row.name) == job]

    def signatures(self, api: str) -> list[tuple[Row, Signature]]:
        """What ``api`` takes, one signature for each row it stands in."""
        found = self._signatures.get(api)
        if found is None:
            found = self._signatures[api] = self._read(api)
        return found

    def _read(self, api: str) -> list[tuple[Row, Signature]]:
        self.rows_of(api)  # finds a pattern's entries, too
        found = [(row, self._signature(row, entry)) for row, entry in self._entries.get(api, ())]
        # a row that only says "(*args)" tells nothing where another one tells more
        exact = [pair for pair in found if pair[1].names != ("args",)]
        return exact or found

    def _signature(self, row: Row, entry: str) -> Signature:
        try:
            if "(" in entry:
                return parse(entry)
            first = (row.torch if entry in row.torch else row.paddle)[0]
            return Signature(entry.strip(), parse(first).parameters)
        except OpTableError as error:
            raise OpTableError(f"{row.file}: row {row.name}: {error}") from error


_loaded: Table | None = None


def table() -> Table:
    """The table, read on first use: optrace's rows, then those of installed packages and ``OPTRACE_OPS``."""
    global _loaded
    if _loaded is None:
        found = Table()
        for path in own_files():
            found.add(read(path))
        for path in user_files():
            found.add(read(path, check=True))
        _loaded = found
    return _loaded


def load(path: str | Path) -> None:
    """Add a user's rows. Raises ``OpTableError`` naming the file, the row and the field."""
    table().add(read(Path(path), check=True))

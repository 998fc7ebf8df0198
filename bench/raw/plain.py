"""What Python and the file system do with nothing in between."""

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

from bench.rows import Row
from bench.subject import LAST, Subject, expect, spelled


class PythonObjects(Subject):
    """A list, a dict by id and a dict of lists by session."""

    does = (
        "`list.append`, a dict by id and a list per session, holding the caller's own dicts (nothing is checked or copied); "
        "reads copy both dicts of 50 rows; the tally is a `Counter` over all rows."
    )

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._by_session: dict[str, list[Row]] = defaultdict(list)

    async def append(self, given: list[Row]) -> None:
        for row in given:
            if row.id not in self._by_id:
                self._by_id[row.id] = row
                self._rows.append(row)
                self._by_session[row.session].append(row)

    async def batch(self, given: list[Row]) -> None:
        await self.append(given)

    async def last(self, given: list[str]) -> None:
        for session in given:
            found = [
                row._replace(data={**row.data}, metadata={**row.metadata})
                for row in self._by_session[session][-LAST:]
            ]
            expect(len(found), LAST, self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            kinds = Counter(row.kind for row in self._rows)
            _ends = min(row.at for row in self._rows), max(row.at for row in self._rows)
        expect(kinds.total(), self._written, self)


class PlainFiles(Subject):
    """One JSONL file per session."""

    does = (
        "one JSONL file per session: `os.open(O_APPEND)`, one `os.write` per row (per session and batch in batches), "
        "`os.close` (after `os.fsync` in `file fsync`); a read takes the whole file and decodes its last 50 lines; the tally reads every file."
    )

    def __init__(self, total: int, folder: Path, *, fsync: bool) -> None:
        super().__init__(total)
        self._folder = folder
        self._fsync = fsync
        folder.mkdir(parents=True)

    async def append(self, given: list[Row]) -> None:
        for row in given:
            self._write(row.session, _line(row))

    async def batch(self, given: list[Row]) -> None:
        lines: dict[str, list[bytes]] = defaultdict(list)
        for row in given:
            lines[row.session].append(_line(row))
        for session, spelled_rows in lines.items():
            self._write(session, b"".join(spelled_rows))

    def _write(self, session: str, body: bytes) -> None:
        file = os.open(self._folder / f"{session}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, body)
            if self._fsync:
                os.fsync(file)
        finally:
            os.close(file)

    async def last(self, given: list[str]) -> None:
        for session in given:
            lines = (self._folder / f"{session}.jsonl").read_bytes().splitlines()[-LAST:]
            found = [json.loads(line) for line in lines]
            expect(len(found), LAST, self)

    async def tally(self, given: int) -> None:
        for _ in range(given):
            kinds: Counter[str] = Counter()
            times = []
            for path in self._folder.iterdir():
                for line in path.read_bytes().splitlines():
                    row = json.loads(line)
                    kinds[row["kind"]] += 1
                    times.append(row["timestamp"])
            _ends = min(times), max(times)
        expect(kinds.total(), self._written, self)


def _line(row: Row) -> bytes:
    data, metadata = spelled(row)
    head = json.dumps({
        "id": row.id, "agent": row.agent, "session": row.session, "kind": row.kind, "timestamp": row.at.isoformat(),
    })  # fmt: skip
    return f'{head[:-1]}, "data": {data}, "metadata": {metadata}}}\n'.encode()

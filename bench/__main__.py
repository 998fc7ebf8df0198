"""`make bench`: time every store against its raw driver and its peers, and print one table."""

import argparse
import asyncio
import signal
import sys
import traceback
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench import (
    agent,
    alone,
    console,
    door,
    forget,
    frameworks,
    journal,
    measures,
    recall,
    recall_report,
    scale,
    serving,
    watching,
)
from bench.peers.environment import PEERS, PeerFailed
from bench.places import DOES, SETTINGS, Places
from bench.recall import STORES, VECTORS
from bench.report import Line, footnotes, machine, save, table
from bench.rounds import FULL, QUICK

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--store",
        action="append",
        metavar="NAME",
        help="only this store, such as sqlite or postgresql; may be repeated",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing"
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out AgentScope, LangChain, LangGraph and OpenAI Agents"
    )
    parser.add_argument(
        "--million",
        action="store_true",
        help="read from 1,000,000 records on every store, not only on SQLite",
    )
    parser.add_argument(
        "--recall", action="store_true", help="measure search and recall instead of writing and reading"
    )
    parser.add_argument(
        "--agent", action="store_true", help="measure what recording costs an agent, on SQLite"
    )
    parser.add_argument(
        "--journal", action="store_true", help="measure what the Journal costs, with the store up and away"
    )
    parser.add_argument(
        "--server", action="store_true", help="measure the REST server beside a bare FastAPI endpoint"
    )
    parser.add_argument(
        "--door", action="store_true", help="measure add, search and context of the front door beside mem0's"
    )
    parser.add_argument(
        "--frameworks",
        action="store_true",
        help="measure Octavo inside LangGraph and OpenAI Agents beside their own stores, savers and sessions",
    )
    parser.add_argument(
        "--forget", action="store_true", help="measure forgetting one user of many, on SQLite and PostgreSQL"
    )
    parser.add_argument(
        "--console", action="store_true", help="measure the pages of the console with much in the store"
    )
    parser.add_argument(
        "--watching", action="store_true", help="measure what metrics and traces cost a request, on SQLite"
    )
    parser.add_argument(
        "--alone",
        action="store_true",
        help="measure where the time of a lone append and of a batch goes, on PostgreSQL and MariaDB",
    )
    parser.add_argument(
        "--scale",
        action="store_true",
        help="measure what costs more when more is kept: on SQLite and PostgreSQL, or the stores named by --store",
    )
    parser.add_argument(
        "--sizes",
        type=_sizes,
        metavar="N,N",
        help=f"records for --scale, {','.join(map(str, scale.FULL.sizes))} if not told; at least 1000",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="DIR", help="where the JSON file and scratch data go"
    )
    given = parser.parse_args()
    if given.agent or given.journal:
        return asyncio.run((_agent if given.agent else _journal)(given))
    if given.door:
        return asyncio.run(_door(given))
    if given.frameworks:
        return asyncio.run(_frameworks(given))
    if given.forget:
        return asyncio.run(_forget(given))
    if given.console:
        return asyncio.run(_console(given))
    if given.watching:
        return asyncio.run(_watching(given))
    if given.alone:
        return asyncio.run(_alone(given))
    if given.server:
        return asyncio.run(_server(given))
    known = [*STORES, VECTORS] if given.recall else [*STORES][1:] if given.scale else list(SETTINGS)
    names = [
        name
        for name in known
        if not given.store or any(name.split()[0] == one or name == one for one in given.store)
    ]
    if not names:
        parser.error(f"unknown store; known: {', '.join(known)}")
    # Ended from outside, it still shows what it has and takes its servers and scratch data with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.scale:
        return asyncio.run(_scale(names if given.store else ["sqlite", "postgresql"], given))
    return asyncio.run((_recall if given.recall else _bench)(names, given))


async def _agent(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        lines = await agent.measured(places, agent.QUICK if given.quick else agent.FULL)
    print(agent.table(lines, markdown=given.markdown))
    return 0


async def _alone(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        print(await alone.measured(places, alone.QUICK if given.quick else alone.FULL))
    return 0


async def _door(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        size = door.QUICK if given.quick else door.FULL
        print(await door.measured(places, size, peers=not given.no_peers))
    return 0


async def _frameworks(given: argparse.Namespace) -> int:
    """Each row as it is measured; without the frameworks, which one is missing is said and nothing else fails."""
    given.results.mkdir(parents=True, exist_ok=True)
    lines: list[frameworks.Line] = []
    try:
        with Places(given.results) as places:
            found = frameworks.measured(places, QUICK if given.quick else FULL, servers=_servers(given))
            async with aclosing(found):
                async for line in found:
                    lines.append(line)
                    print(frameworks.table([line]).splitlines()[-1], file=sys.stderr, flush=True)
    except PeerFailed as error:
        print(f"!!! NOT MEASURED inside frameworks: {error}", file=sys.stderr)
    print(frameworks.table(lines))
    print(f"\n- {frameworks.FRAMEWORKS.name}: {frameworks.FRAMEWORKS.does}")
    return 0


def _servers(given: argparse.Namespace) -> bool:
    """Whether stores that need a server are measured too."""
    return not given.store or "postgresql" in given.store


async def _forget(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        print(await forget.measured(places, forget.QUICK if given.quick else forget.FULL))
    return 0


async def _console(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        print(await console.measured(places, console.QUICK if given.quick else console.FULL))
    return 0


async def _scale(names: list[str], given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    effort = scale.QUICK if given.quick else scale.FULL
    with Places(given.results) as places:
        await scale.show(names, places, effort._replace(sizes=given.sizes or effort.sizes))
    return 0


def _sizes(text: str) -> tuple[int, ...]:
    """Numbers of records between commas."""
    sizes = tuple(sorted({int(each) for each in text.split(",")}))
    if sizes[0] < 1000:
        raise argparse.ArgumentTypeError("at least 1000 records")
    return sizes


async def _watching(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        print(await watching.measured(places, watching.QUICK if given.quick else watching.FULL))
    return 0


async def _journal(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        lines = await journal.measured(places, journal.QUICK if given.quick else journal.FULL)
        rate = await journal.replayed(places, 200 if given.quick else 20_000)
    print(journal.table(lines, rate, markdown=given.markdown))
    return 0


async def _server(given: argparse.Namespace) -> int:
    given.results.mkdir(parents=True, exist_ok=True)
    with Places(given.results) as places:
        lines = await serving.measured(places, serving.QUICK if given.quick else serving.FULL)
    print(serving.table(lines, markdown=given.markdown))
    return 0


async def _recall(names: list[str], given: argparse.Namespace) -> int:
    run = Run(names, given)
    size = recall.QUICK if given.quick else recall.FULL
    lines: list[recall.Line] = []
    try:
        with Places(given.results) as places:
            found = recall.measured(names, places, size, run.say, run.fail)
            async with aclosing(found):
                async for line in found:
                    lines.append(line)
                    recall_report.save(lines, run.failures, size, run.facts, run.kept)
    finally:
        print(recall_report.tables(lines, markdown=given.markdown), end="\n\n")
        for note in recall_report.footnotes(size, run.facts):
            print(f"- {note}" if given.markdown else f"  {note}")
        for failure in run.failures:
            print(f"\n!!! {failure}")
    run.say(f"numbers kept in {run.kept}")
    return 1 if run.failures else 0


async def _bench(names: list[str], given: argparse.Namespace) -> int:
    run = Run(names, given)
    try:
        await run.stores()
        broken = bool(run.failures)
        if run.with_peers:
            await run.peers()
    finally:  # minutes of work are worth showing even when the rest is interrupted
        run.show()
    if any(name.startswith("sqlite") for name in names):
        print()
        await _door(given)
        if run.with_peers:
            print()
            await _frameworks(given)
    run.say(f"numbers kept in {run.kept}")
    return 1 if broken else 0


class Run:
    """One run of the benchmark: its lines so far, and what could not be measured."""

    def __init__(self, names: list[str], given: argparse.Namespace) -> None:
        self.names = names
        self.given = given
        self.pace = QUICK if given.quick else FULL
        self.with_peers = not given.no_peers and any(name.startswith("sqlite") for name in names)
        self.lines: list[Line] = []
        self.failures: list[str] = []
        self._began = perf_counter()
        given.results.mkdir(parents=True, exist_ok=True)
        self.facts = machine(given.results)
        self.kept = given.results / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.json"
        if self.facts["load_at_start"] > 0.5:
            self.say(f"the machine is busy (load {self.facts['load_at_start']}): expect wide rounds")

    def say(self, text: str) -> None:
        print(f"[{perf_counter() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)

    def fail(self, text: str) -> None:
        self.failures.append(text)
        self.say(f"!!! {text}")

    async def stores(self) -> None:
        """Each store against its raw drivers."""
        for name in self.names:
            # Whatever goes wrong with one store must not cost the minutes spent on the others.
            try:
                with SETTINGS[name].around(), Places(self.given.results) as places:
                    found = measures.of_store(
                        SETTINGS[name], places, self.pace, million=self.given.million, say=self.say
                    )
                    async with aclosing(found):
                        async for line in found:
                            self.lines.append(line)
            except Exception as error:
                traceback.print_exc()
                self.fail(f"store {name} could not be measured: {type(error).__name__}: {error}")
            self.save()

    async def peers(self) -> None:
        """The SQLite store against the peers' SQL memories; a peer that fails is told, not fatal."""
        try:
            with Places(self.given.results) as places:
                async with aclosing(measures.of_peers(places, self.pace, say=self.say)) as told:
                    async for line in told:
                        if isinstance(line, Line):
                            self.lines.append(line)
                        else:
                            self.fail(line)
        except Exception as error:
            traceback.print_exc()
            self.fail(f"peers could not be measured: {type(error).__name__}: {error}")
        self.save()

    def save(self) -> None:
        """Keep all numbers so far."""
        save(self.lines, self.failures, self.pace, self.facts, self.kept)

    def show(self) -> None:
        """Print the table, its footnotes and, last, what is missing from it."""
        markdown = self.given.markdown
        does = {label: DOES[label] for name in self.names for label in SETTINGS[name].raw}
        does |= {peer.name: peer.does for peer in PEERS} if self.with_peers else {}
        print(table(self.lines, list(SETTINGS), markdown=markdown))
        print()
        for note in footnotes(
            self.pace, self.facts, does, {name: SETTINGS[name].note for name in self.names}
        ):
            print(f"- {note}" if markdown else f"  {note}")
        for failure in self.failures:
            print(f"\n!!! {failure}")


if __name__ == "__main__":
    sys.exit(main())

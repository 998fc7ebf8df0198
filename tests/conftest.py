"""Servers, sizes and settings that all tests share."""

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from octavo.kernel.terms import matching
from octavo.testing import StoreContract
from rotation import in_turn, taking_turns
from sampled import FULL
from servers import Remote, Shared, Unavailable, fresh
from servers.verdict import NOT_TESTED, give_up, in_ci

SERVERS = pytest.StashKey[Shared | Remote]()

hypothesis.settings.register_profile("octavo", deadline=None, derandomize=in_ci(), print_blob=True)
hypothesis.settings.load_profile("octavo")

# What a search must find is worked out from all records, for each question: the terms of one text need be found once.
matching.count_terms = lru_cache(2**14)(matching.count_terms)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would every process that a test starts in order to interrupt it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is compiled is kept: each of the hundreds of processes that tests start would compile the whole package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


#: Parts of a test's name that say it needs a server, or a vector index that is slow to begin.
_NEEDS_SERVER = ("postgres", "mysql", "mariadb", "redis", "pgvector", "qdrant", "nginx", "caddy")
#: Tests, or classes of them, that run or write more at full length, or for more stores.
_LONGER = {
    "test_programs_agree",
    "test_searches_agree",
    "test_forty_thousand_at_once",
    "test_the_largest_record",
    "test_a_change_may_not_outgrow_the_limit",
    "test_ids_are_bytes",
    "test_kinds_and_marks_are_bytes",
    "test_scopes_never_meet",
    "test_more_than_a_search_looks_at",
    "test_long_texts_are_searched",
    "test_every_language_is_searched",
    "test_hostile_terms",
    "test_the_log_is_the_table",
    "test_it_answers_as_the_store_does",
    "test_vectors_follow_every_program",
    "TestLives",
    "test_what_is_asked_is_answered_as_it_will_be",
    "TestJournalAgainstList",
    "TestQueueAgainstList",
    "TestQueueInMemoryAgainstList",
    "TestVaults",
    "test_whoever_wrote_it_and_however",
    "test_cut_off_at_every_byte",
    "test_the_newest_of_all_that_hold_it",
    "test_any_calls",
    "test_idle_time_is_used_by_the_thread",
    "test_recall",
    "test_no_damage_breaks_the_reading",
}
#: Folders of tests that mostly wait for servers to go down and come back.
_WAITING = ("clusters", "torture")
#: Folders by the processor time they take, longest first; the others take less.
_LONGEST = (
    "contract", "server", "stores", "layers", "integrations", "search", "wraps", "chat", "console", "docs", "vectors", "memory",
    "cli", "unit", "models", "erasing", "mcp", "vault", "conversation", "seeds", "events", "importers", "agent", "mem0", "examples",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="memory, files and SQLite only; no server is started"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Nothing that is collected is garbage: to look for some among it takes as long as to collect it, then and in every test.

    What tests leave is looked through more rarely than by default, which takes a twentieth less of all their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --quick, leave out what needs a server and what is long by its nature; at full length, `make torture` has more to run.

    Whoever names files, as in `pytest tests/chat/test_compress.py`, runs them on all stores.
    """
    left_out: set[pytest.Item] = set()
    if FULL:
        parts = taking_turns(items)
        for item in items:
            if item in parts or _LONGER.intersection(item.nodeid.partition("[")[0].split("::")):
                item.add_marker(pytest.mark.torture)
    elif config.getoption("--quick"):
        left_out = {
            item
            for item in items
            if item.get_closest_marker("torture")
            or any(word in item.nodeid.lower() for word in _NEEDS_SERVER)
        }
    elif not any(".py" in argument for argument in config.args):
        left_out = in_turn(items) | {item for item in items if _is_only_torture(item)}
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]
    begin_with_the_longest(items)


def _is_only_torture(item: pytest.Item) -> bool:
    return any(mark.kwargs.get("only") for mark in item.iter_markers("torture"))


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """Put long files before short ones, so that all workers end together, and one that waits beside every two that work."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    folders = {file: file.removeprefix("tests/").partition("/")[0] for file in files}
    waiting = [file for file in files if folders[file] in _WAITING]
    ranks = {folder: rank for rank, folder in enumerate(_LONGEST)}
    ordered = sorted(files.keys() - waiting, key=lambda file: (ranks.get(folders[file], len(ranks)), file))
    for number, file in enumerate(waiting):
        ordered.insert(3 * number + 2, file)
    items[:] = [item for file in ordered for item in files[file]]


def pytest_configure(config: pytest.Config) -> None:
    if not FULL:
        # As many as tests/contract/test_planted_bugs.py needs; class by class, `make torture` runs what the contract asks for.
        os.environ.setdefault("OCTAVO_PROGRAMS", "10" if config.getoption("--quick") else "100")
        StoreContract.largest_batch = 5000
    if not config.getoption("--quick"):
        import httpx
        import httpx2  # of the SDKs of OpenAI and MCP

        # Each client would read the certificates of all authorities again, which takes longer than most tests.
        for package in (httpx, httpx2):
            package._transports.default.create_ssl_context = cache(package.create_ssl_context)
    worker = getattr(config, "workerinput", None)
    config.stash[SERVERS] = Remote(worker["servers"]) if worker else Shared()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """Tell each xdist worker where to ask for the run's servers."""
    node.workerinput["servers"] = node.config.stash[SERVERS].listen()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[SERVERS].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[object]:
    """What programs leave behind when a test kills them goes with the run; locks between runs stay where all look for them."""
    tempfile.gettempdir()  # decides for this process
    with tempfile.TemporaryDirectory(prefix="octavo-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o1777)  # servers run under accounts of their own
        os.environ["TMPDIR"] = folder
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    try:
        return (yield)
    except Unavailable as reason:
        give_up(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    try:
        return (yield)
    except Unavailable as reason:
        give_up(reason)


def pytest_terminal_summary(terminalreporter) -> None:
    """Name what was not tested even when nobody asked for the reasons of skips."""
    skips = (str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for line in sorted({skip[skip.index(NOT_TESTED) :] for skip in skips if NOT_TESTED in skip}):
        terminalreporter.write_line(line, red=True, bold=True)
    for line in part_times(report for reports in terminalreporter.stats.values() for report in reports):
        terminalreporter.write_line(line)


def part_times(reports: Iterable[Any]) -> list[str]:
    """The time of each folder of tests, longest first, with what its fixtures took; nothing of a run of one folder."""
    seconds: Counter[str] = Counter()
    for report in reports:
        if (took := getattr(report, "duration", None)) is not None:
            path, _, _ = report.nodeid.partition("::")
            seconds[path.removeprefix("tests/").partition("/")[0]] += took
    if len(seconds) < 2:
        return []
    return [
        "seconds of work in each part of the tests, of all workers together:",
        *(f"{took:7.1f}  {part}" for part, took in seconds.most_common()),
        f"{seconds.total():7.1f}  all",
    ]


@pytest.fixture(scope="session")
def server_url(pytestconfig: pytest.Config) -> Callable[[str], str]:
    """The address of the run's server of a kind, started on first use."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    @cache
    def url(kind: str) -> str:
        if pytestconfig.getoption("--quick"):
            pytest.skip(f"--quick starts no {kind}")
        # An installation takes a minute: what it prints must be seen while it happens.
        with capture.global_and_fixture_disabled():
            return pytestconfig.stash[SERVERS].url(kind)

    return url


@pytest.fixture(scope="session")
def postgres_url(server_url) -> str:
    return server_url("postgres")


@pytest.fixture(scope="session")
def mysql_url(server_url) -> str:
    return server_url("mysql")


@pytest.fixture(scope="session")
def redis_url(server_url) -> str:
    return server_url("redis")


@pytest.fixture
def fresh_url(server_url) -> Iterator[Callable[[str], str]]:
    """Addresses of empty databases, as many as a test asks for, all dropped after it."""
    with ExitStack() as stack:
        yield lambda kind: stack.enter_context(fresh(kind, server_url(kind)))


@pytest.fixture
def fresh_postgres(fresh_url) -> str:
    return fresh_url("postgres")


@pytest.fixture
def fresh_pgvector(fresh_url) -> str:
    return fresh_url("pgvector")


@pytest.fixture
def fresh_mysql(fresh_url) -> str:
    return fresh_url("mysql")


@pytest.fixture
def fresh_redis(fresh_url) -> str:
    return fresh_url("redis")


@pytest.fixture(scope="session")
def size() -> Callable[[int, int], int]:
    """`size(small, full)`: how much a torture test does by default, and with OCTAVO_TORTURE=full."""
    return lambda small, full: full if FULL else small

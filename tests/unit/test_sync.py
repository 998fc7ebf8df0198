"""octavo.util.sync: one implementation, called by blocking threads and by coroutines on any event loop."""

import asyncio
import gc
import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

import pytest

from octavo import StoreClosed
from octavo.util import sync
from octavo.util.sync import Portal, Twins, as_async, as_plain, awaiting, blocking

PATIENCE = 30  # seconds, after which a test fails rather than hang


class Behind:
    """The coroutines of a small face."""

    def __init__(self):
        self.loops = set()
        self.under_way = threading.Event()
        self.cancelled = threading.Event()
        self.kept = 0

    async def add(self, number: int, *, times: int = 1) -> int:
        """Add to what is kept."""
        self.loops.add(asyncio.get_running_loop())
        before = self.kept
        await asyncio.sleep(0)
        self.kept += number * times
        return before

    async def fail(self, error):
        raise error

    async def hang(self):
        self.under_way.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Face:
    """Both faces of the same coroutines."""

    def __init__(self, portal):
        self.portal = portal
        self.behind = Behind()

    add = blocking(Behind.add)
    aadd = awaiting(Behind.add)
    fail = blocking(Behind.fail)
    afail = awaiting(Behind.fail)
    hang = blocking(Behind.hang)
    ahang = awaiting(Behind.hang)

    async def inside(self):
        """What a callback on the portal's own loop does."""
        return await self.aadd(1)


@pytest.fixture
def portal():
    portal = Portal("octavo-test")
    yield portal
    portal.close()
    assert "octavo-test" not in [thread.name for thread in threading.enumerate()]


@pytest.fixture
def face(portal):
    return Face(portal)


def test_a_blocking_method_answers_and_raises_as_its_coroutine_does(face):
    """Arguments, answers and the very error object come through."""
    assert face.add(2, times=3) == 0
    assert face.behind.kept == 6
    error = LookupError("gone")
    with pytest.raises(LookupError) as caught:
        face.fail(error)
    assert caught.value is error


async def test_an_awaited_method_answers_and_raises_as_its_coroutine_does(face):
    assert await face.aadd(2, times=3) == 0
    assert face.behind.kept == 6
    with pytest.raises(LookupError, match="gone"):
        await face.afail(LookupError("gone"))


def test_both_faces_tell_what_they_are():
    """Help and editors see the name, the words and the parameters of the method; only one of them is to be awaited."""
    assert Face.add.__name__ == "add"
    assert Face.aadd.__name__ == "aadd"
    assert Face.add.__doc__ == Face.aadd.__doc__ == "Add to what is kept."
    assert list(inspect.signature(Face.add).parameters) == ["self", "number", "times"]
    assert inspect.signature(Face.aadd) == inspect.signature(Face.add)
    assert inspect.iscoroutinefunction(Face.aadd)
    assert not inspect.iscoroutinefunction(Face.add)


def test_no_thread_before_the_first_call():
    """Making a face costs nothing, and closing one that was never used neither."""
    before = threading.active_count()
    portal = Portal()
    assert threading.active_count() == before
    portal.close()
    portal.close()
    assert threading.active_count() == before


@pytest.mark.skipif(
    sys.version_info >= (3, 12),
    reason="from Python 3.12 on no thread is started once the main thread has ended",
)
def test_a_thread_that_outlives_the_main_thread():
    """Python takes no work for thread pools once the main thread has ended; calls from another thread are still answered."""
    program = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from octavo.util.sync import Portal

async def work():
    own = await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), str.upper, "own")
    try:
        await asyncio.to_thread(int, "x")
    except ValueError as error:
        return own, await asyncio.to_thread(str.upper, "shared"), str(error)

def call():
    threading.main_thread().join()
    print(portal.call(work()))
    portal.close()

portal = Portal()
threading.Thread(target=call).start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.stderr == ""
    assert done.stdout == "('OWN', 'SHARED', \"invalid literal for int() with base 10: 'x'\")\n"


def test_many_threads_share_one_loop(face):
    """The first calls at once start one loop; all work is done there, and none is lost."""
    start = threading.Barrier(16)

    def work(_):
        start.wait(PATIENCE)
        for _ in range(50):
            face.add(1)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    assert len(face.behind.loops) == 1
    # What each call adds after a pause in between is all there: they ran on one loop, one step at a time.
    assert face.behind.kept == 16 * 50


def test_every_event_loop_may_await(face):
    """One loop after another, and several at once in threads of their own, reach the same place."""
    for _ in range(3):
        asyncio.run(face.aadd(1))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: asyncio.run(face.aadd(1)), range(8)))
    face.add(1)
    assert face.behind.kept == 12
    assert len(face.behind.loops) == 1


def test_a_blocking_call_on_the_own_loop_is_refused(face):
    """It would wait for itself for ever; the refusal leaves no coroutine behind that was never awaited."""

    async def callback():
        return face.add(1)

    with pytest.raises(RuntimeError, match="await its twin"):
        face.portal.call(callback())
    gc.collect()  # a warning about a coroutine would come now, and warnings are errors
    assert face.behind.kept == 0
    assert face.add(1) == 0


def test_awaiting_on_the_own_loop_needs_no_detour(face):
    """A callback may use the face it is called from."""
    assert face.portal.call(face.inside()) == 0
    assert face.behind.kept == 1


async def test_a_blocking_call_from_a_foreign_loop_blocks_that_loop_only(face):
    """Not good manners, but it answers."""
    assert face.add(1) == 0


async def test_cancelling_the_waiter_cancels_the_work(face):
    """From another loop: what nobody waits for any more does not go on."""
    waiting = asyncio.create_task(face.ahang())
    await asyncio.to_thread(face.behind.under_way.wait, PATIENCE)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(face.behind.cancelled.wait, PATIENCE)
    assert await face.aadd(1) == 0


async def test_a_timeout_around_it_is_a_timeout(face):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await face.ahang()
    assert await face.aadd(1) == 0


def test_ctrl_c_in_a_waiting_thread_cancels_the_work(face):
    """The interrupt is the caller's; the work stops, and the face is as good as before."""

    def interrupt():
        face.behind.under_way.wait(PATIENCE)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        face.hang()
    interrupter.join(PATIENCE)
    assert face.behind.cancelled.wait(PATIENCE)
    assert face.add(1) == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_while_the_work_is_handed_over(face, moment, monkeypatch):
    """A signal may come between any two steps: also then nothing goes on alone, and nothing is left that was never awaited."""
    face.add(1)
    hand_over = asyncio.run_coroutine_threadsafe

    def interrupted(work, loop):
        if moment == "after":
            hand_over(work, loop)
            assert face.behind.under_way.wait(PATIENCE)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            face.hang()
    assert face.behind.cancelled.wait(PATIENCE) if moment == "after" else True
    assert face.add(1) == 1  # behind the cancellation, so that it has happened
    gc.collect()
    assert not face.portal.call(others())


async def others():
    """The tasks that are still there."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_a_closed_portal_says_so(face):
    """To both faces, with the cure; the coroutines it was handed are closed and warn of nothing."""
    face.add(1)
    face.portal.close()
    face.portal.close()
    with pytest.raises(StoreClosed, match="open another"):
        face.add(1)
    with pytest.raises(StoreClosed):
        asyncio.run(face.aadd(1))
    gc.collect()
    assert face.behind.kept == 1


def test_closing_ends_what_is_under_way(face):
    """A thread that waits learns it, and the work is cancelled before the closing is done."""
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(face.hang)
        assert face.behind.under_way.wait(PATIENCE)
        face.portal.close()
        assert face.behind.cancelled.is_set()
        with pytest.raises(StoreClosed, match="before the call was done"):
            waiting.result(PATIENCE)


async def test_closing_ends_what_is_awaited(face):
    """Whoever awaits learns it as an error: a cancellation would end a task that nobody cancelled, without a word."""
    waiting = asyncio.create_task(face.ahang())
    await asyncio.to_thread(face.behind.under_way.wait, PATIENCE)
    await asyncio.to_thread(face.portal.close)
    with pytest.raises(StoreClosed, match="before the call was done"):
        await waiting
    assert not waiting.cancelled()


def test_closing_from_the_own_loop_does_not_wait_for_itself(face):
    """A callback may close and still answers; the thread ends after it."""

    async def callback():
        face.portal.close()
        return "closed"

    assert face.portal.call(callback()) == "closed"
    with pytest.raises(StoreClosed):
        face.add(1)


def test_a_call_that_meets_the_closing_is_refused_or_answered():
    """Never left waiting: whoever comes while another thread closes learns it."""
    for _ in range(100):
        face = Face(Portal())
        start = threading.Barrier(5)

        def use(face=face, start=start):
            start.wait(PATIENCE)
            try:
                return face.add(1)
            except StoreClosed:
                return None

        with ThreadPoolExecutor(4) as threads:
            users = [threads.submit(use) for _ in range(4)]
            start.wait(PATIENCE)
            face.portal.close()
            for user in users:
                assert user.result(PATIENCE) in (None, 0, 1, 2, 3)
    gc.collect()


def test_work_begun_at_the_moment_of_closing_does_not_hang(face):
    """The worst moment: a call has found the loop, and another thread closes before the work is there."""
    face.add(1)
    found, going = threading.Event(), threading.Event()
    running = face.portal._start_loop

    def pausing():
        loop = running()
        found.set()
        going.wait(PATIENCE)  # the closing cannot happen while work is being begun; if it could, it would now
        return loop

    face.portal._start_loop = pausing
    with ThreadPoolExecutor(2) as threads:
        caller = threads.submit(face.hang)
        assert found.wait(PATIENCE)
        closer = threads.submit(face.portal.close)
        with pytest.raises(FutureTimeout):
            closer.result(0.1)
        going.set()
        closer.result(PATIENCE)
        with pytest.raises(StoreClosed):
            caller.result(PATIENCE)


def test_a_forked_process_is_told(tmp_path):
    """It has no thread to do the work: without a word it would wait for ever. What it was forked from goes on."""
    program = """
import asyncio, os
from octavo.errors import StoreClosed
from octavo.util.sync import Portal

portal = Portal()
portal.call(asyncio.sleep(0))
child = os.fork()
if not child:
    try:
        portal.call(asyncio.sleep(0))
    except StoreClosed as error:
        print(error, flush=True)
    portal.close()
    os._exit(0)
os.waitpid(child, 0)
print(portal.call(asyncio.sleep(0, "done")))
portal.close()
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == (
        "this memory was opened before the process was forked; open another in the new one\ndone\n"
    )


def test_a_program_that_forgets_to_close_still_ends():
    """The thread is a daemon."""
    program = (
        "import asyncio; from octavo.util.sync import Portal; print(Portal().call(asyncio.sleep(0, 'done')))"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


def test_a_fork_in_the_middle_of_a_call_hangs_nobody():
    """Another thread may be in the middle of beginning or closing: the child is told, and can close, without waiting for it."""
    program = """
import asyncio, os, threading
from octavo.errors import StoreClosed
from octavo.util.sync import Portal

portal, unused = Portal(), Portal()
portal.call(asyncio.sleep(0))
portal._starting.acquire()
unused._starting.acquire()
child = os.fork()
if not child:
    try:
        portal.call(asyncio.sleep(0))
    except StoreClosed as error:
        print(error, flush=True)
    portal.close()
    print(unused.call(asyncio.sleep(0, "works")), flush=True)
    unused.close()
    os._exit(0)
os.waitpid(child, 0)
portal._starting.release()
print(portal.call(asyncio.sleep(0, "done")))
portal.close()
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == (
        "this memory was opened before the process was forked; open another in the new one\nworks\ndone\n"
    )


class Counter(Twins):
    """One verb written as a coroutine, one plainly."""

    def __init__(self):
        self.total = 0
        self.threads = set()

    async def aadd(self, number: int, *, times: int = 1) -> int:
        """Add to the total."""
        self.threads.add(threading.current_thread())
        self.total += number * times
        return self.total

    def reset(self, to: int = 0) -> None:
        """Begin anew."""
        self.threads.add(threading.current_thread())
        self.total = to

    add = as_plain(aadd)
    areset = as_async(reset)


class Careful(Counter):
    """Each verb written in the other form, on top of the one it replaces."""

    def add(self, number, *, times=1):
        return super().add(abs(number), times=times)

    async def areset(self, to=0):
        await super().areset(to + 1)


class Doubling:
    """A verb that comes from beside the class."""

    def add(self, number, *, times=1):
        return super().add(2 * number, times=times)


class Mixed(Doubling, Counter):
    pass


class Refusing(Counter):
    def refuse_deadlock(self):
        raise RuntimeError("not from here")


async def test_each_form_makes_the_other():
    """Whichever a class writes, both answer alike; neither form runs on the thread of the caller's event loop."""
    for kind, added, begun in ((Counter, -2, 5), (Careful, 2, 6), (Mixed, -4, 5)):
        counter = kind()
        assert await counter.aadd(-2) == await asyncio.to_thread(lambda c=counter: c.total) == added
        assert await asyncio.to_thread(counter.add, -2, times=3) == 4 * added
        await counter.areset(5)
        assert counter.total == begun
        counter.threads.clear()
        await counter.areset()
        assert threading.current_thread() not in counter.threads
        await asyncio.to_thread(counter.reset, 7)
        assert counter.total == 7 + begun - 5


def test_a_made_form_looks_like_a_written_one():
    """Name, docstring and signature are those of the form it was made from."""
    assert (Counter.add.__name__, Counter.areset.__name__) == ("add", "areset")
    assert Counter.add.__qualname__ == "Counter.add"
    assert Careful.reset.__qualname__ == "Careful.reset"
    assert inspect.getdoc(Counter.add) == "Add to the total."
    assert inspect.getdoc(Counter.areset) == "Begin anew."
    assert str(inspect.signature(Counter.add)) == "(self, number: int, *, times: int = 1) -> int"
    assert inspect.iscoroutinefunction(Counter.areset)
    assert not inspect.iscoroutinefunction(Counter.add)


async def test_a_call_that_would_wait_for_itself_is_refused():
    """By the object that knows, and by the thread that everything runs on; no coroutine is left unawaited."""
    with pytest.raises(RuntimeError, match="not from here"):
        Refusing().add(1)

    async def nested():
        return Counter().add(1)

    with pytest.raises(RuntimeError, match="would wait for itself"):
        await sync.shared_portal().acall(nested())
    gc.collect()

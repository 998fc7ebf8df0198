"""Killed between any two steps: the next sync heals it, and no text is lost."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from faulty import files, texts

from octavo import Query, open_store
from octavo.service.vault import Vault
from octavo.service.vault.folder import Folder, Ledger
from octavo.wraps import Wrap


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


class Death:
    """Counts the steps that change something, and ends the process before or after one of them."""

    def __init__(self, left):
        self.left = left
        self.dead = False

    def step(self):
        self.left -= 1
        if self.dead or self.left < 0:
            self.dead = True
            raise Killed

    def around(self, real):
        def stepping(*args, **kwargs):
            self.step()
            answer = real(*args, **kwargs)
            self.step()
            return answer

        return stepping


class Mortal(Wrap):
    def __init__(self, store, death):
        super().__init__(store, owned=False)
        self._death = death

    async def apply(self, ops):
        self._death.step()
        counts = await self.inner.apply(ops)
        self._death.step()
        return counts


def edit(vault, text):
    (vault.root / "md" / "system.md").write_text(text)


async def put_new(vault, other):
    return lambda mortal: mortal.put("world", "new")


async def put_over(vault, other):
    return lambda mortal: mortal.put("system", "put", {"a": 1})


async def put_over_an_edit(vault, other):
    edit(vault, "edited")
    return lambda mortal: mortal.put("system", "put")


async def put_over_theirs(vault, other):
    await other.put("system", "theirs")
    return lambda mortal: mortal.put("system", "put")


async def remove(vault, other):
    return lambda mortal: mortal.remove("system")


async def remove_an_edit(vault, other):
    edit(vault, "edited")
    return lambda mortal: mortal.remove("system")


async def push(vault, other):
    edit(vault, "edited")
    return lambda mortal: mortal.sync()


async def pull(vault, other):
    await other.put("system", "theirs")
    return lambda mortal: mortal.sync()


async def conflict(vault, other):
    edit(vault, "edited")
    await other.put("system", "theirs")
    return lambda mortal: mortal.sync()


async def deleted(vault, other):
    (vault.root / "md" / "system.md").unlink()
    return lambda mortal: mortal.sync()


async def deleted_elsewhere(vault, other):
    await other.remove("system")
    return lambda mortal: mortal.sync()


SCENES = [put_new, put_over, put_over_an_edit, put_over_theirs, remove, remove_an_edit, push, pull, conflict, deleted, deleted_elsewhere]  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
async def test_killed_at_every_step(tmp_path, monkeypatch, scene):
    survived, steps = False, 0
    while not survived:
        here = tmp_path / f"{steps}"
        async with (
            open_store("memory://") as fresh,
            Vault(here / "a", fresh) as vault,
            Vault(here / "b", fresh) as other,
        ):
            await vault.put("system", "base")
            await other.sync()
            act = await scene(vault, other)
            before = await texts(fresh) | set(files(vault).values())
            death = Death(steps)
            with monkeypatch.context() as patched:
                for step in ("stage", "replace"):
                    patched.setattr(Folder, step, death.around(getattr(Folder, step)))
                patched.setattr(Folder, "unlink", death.around(Folder.unlink))
                patched.setattr(Ledger, "save", death.around(Ledger.save))
                mortal = Vault(here / "a", Mortal(fresh, death))
                try:
                    await act(mortal)
                    survived = True
                except Killed:
                    pass
                await mortal.close()
            async with Vault(here / "a", fresh) as again:
                assert (await again.sync()).complete
                assert (await again.sync()).changed == 0
                await other.sync()
                assert (await other.sync()).changed == (await again.sync()).changed == 0
                assert files(again) == files(other)
                stored = await fresh.find(Query(collection="configs"))
                assert {f"md/{record.id}.md": record.text for record in stored} == {
                    path: text.removeprefix("---\na: 1\n---\n") for path, text in files(again).items()
                }
            lost = before - await texts(fresh)
            assert not lost, f"killed at step {steps}"
        steps += 1
    assert steps > 2


WORK = """
import asyncio, sys
from octavo import open_store
from octavo.service.vault import Vault

async def main(root, url, name, count):
    print("ready", flush=True)
    sys.stdin.readline()  # so that all begin at the same time
    async with open_store(url) as store, Vault(root, store, patience_seconds=60) as vault:
        for n in range(int(count)):
            await vault.put("system", f"{name} {n}")
            print(f"{name} {n}", flush=True)
            if n % 3 == 0:
                await vault.put(f"users/{name}", f"{name} {n}")
            if n % 5 == 0:
                await vault.sync()

asyncio.run(main(*sys.argv[1:]))
"""


def worker(root, url, name, count):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORK), str(root), url, name, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_two_processes_on_one_vault(root, tmp_path, size):
    count, url = size(20, 200), f"sqlite:///{tmp_path}/records.db"
    workers = [worker(root, url, name, count) for name in ("one", "two")]
    for each in workers:
        assert each.stdout.readline() == "ready\n"
    for each in workers:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = {line.strip() for each in workers for line in each.communicate(timeout=250)[0].splitlines()}
    assert [each.returncode for each in workers] == [0, 0]
    assert len(said) == 2 * count
    async with open_store(url) as store, Vault(root, store) as vault:
        report = await vault.sync()
        assert (report.changed, report.problems, report.pending) == (0, [], [])
        assert said <= await texts(store, "system")
        assert (await vault.get("system")).version == 2 * count


@pytest.mark.torture
async def test_kill_9(root, tmp_path, size):
    """Whatever was answered is there, every file is whole, and the metadata can be read."""
    url, said = f"sqlite:///{tmp_path}/records.db", set()
    for round_ in range(size(4, 50)):
        process = worker(root, url, f"w{round_}", 10_000)
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        for n, line in enumerate(process.stdout):
            said.add(line.strip())
            if n == 3 + round_ * 7 % 11:
                os.kill(process.pid, signal.SIGKILL)
                break
        said |= {
            line.strip() for line in process.communicate(timeout=60)[0].splitlines() if line.endswith("\n")
        }
        assert process.returncode == -signal.SIGKILL
    async with open_store(url) as store, Vault(root, store) as vault:
        assert (await vault.status()).problems == []
        assert (await vault.sync()).complete
        assert (await vault.sync()).changed == 0
        assert said <= await texts(store, "system")
        [record] = await store.find(Query(collection="configs", ids=("system",)))
        assert record.text == (root / "md" / "system.md").read_text()

"""Any history of two vaults on one store that fails now and then: they end up alike, and no text that counted is gone."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from faulty import Faulty, files, texts
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from octavo import StoreUnavailable, open_store
from octavo.service.vault import Vault
from sampled import examples

KEYS = {"system": "md/system.md", "users/a": "md/users/a.md", "facts/x": "knowledge/facts/x.md"}
which = st.sampled_from([0, 1])
keys = st.sampled_from(list(KEYS))
words = st.sampled_from(["a", "b", "---\nn: 1\n---\nc", "---\nn: 2\n---\nc", "d\r\n"])


class Vaults(RuleBasedStateMachine):
    """People edit and delete files, agents put and remove, both sync; the store is up, down, or fails after committing."""

    def __init__(self):
        super().__init__()
        self.fsync, os.fsync = os.fsync, lambda _: None  # nobody pulls the plug here, and a disk is slow
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="octavo-vaults-"))
        self.store = open_store("memory://")
        self.faulty = Faulty(self.store)
        self.vaults = [self.opened(0), self.opened(1)]
        self.counted = set()  # texts that a vault has answered for, by key

    def opened(self, at):
        return Vault(self.folder / str(at), self.faulty)

    def run(self, work):
        return self.runner.run(work)

    def bodies(self, at):
        """The body that each file of a vault has."""
        found = files(self.vaults[at])
        return {(key, body(found[path])) for key, path in KEYS.items() if path in found}

    @rule(at=which, key=keys, text=words)
    def edit(self, at, key, text):
        path = self.folder / str(at) / KEYS[key]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    @rule(at=which, key=keys)
    def delete(self, at, key):
        (self.folder / str(at) / KEYS[key]).unlink(missing_ok=True)

    @rule(at=which, key=keys, text=words)
    def put(self, at, key, text):
        before = {pair for pair in self.bodies(at) if pair[0] == key}
        try:
            document = self.run(self.vaults[at].put(key, text, {}))
        except StoreUnavailable:
            assert before == {pair for pair in self.bodies(at) if pair[0] == key}
            return
        assert document.body == text
        # One that waits for the store is in the file alone: until the next sync, whoever edits that replaces it.
        if document.status == "stored":
            self.counted |= before | {(key, text)}

    @rule(at=which, key=keys)
    def remove(self, at, key):
        before = {pair for pair in self.bodies(at) if pair[0] == key}
        try:
            self.run(self.vaults[at].remove(key))
        except StoreUnavailable:
            return
        self.counted |= before
        assert not (self.folder / str(at) / KEYS[key]).exists()

    @rule(at=which)
    def sync(self, at):
        before = self.bodies(at)
        report = self.run(self.vaults[at].sync())
        assert not report.problems
        if report.complete:
            self.counted |= before

    @rule(at=which)
    def restart(self, at):
        self.run(self.vaults[at].close())
        self.vaults[at] = self.opened(at)

    @rule(at=which)
    def lose_metadata(self, at):
        (self.folder / str(at) / "metadata.json").unlink(missing_ok=True)

    @rule(state=st.sampled_from(["up", "down", "after"]))
    def fail(self, state):
        self.faulty.down, self.faulty.after = state == "down", state == "after"

    @precondition(lambda self: not (self.faulty.down or self.faulty.after))
    @rule()
    def agree(self):
        for _ in range(2):
            for at in (0, 1):
                before = self.bodies(at)
                assert self.run(self.vaults[at].sync()).complete
                self.counted |= before
        for at in (0, 1):
            assert self.run(self.vaults[at].sync()).changed == 0
        assert files(self.vaults[0]) == files(self.vaults[1])

    @invariant()
    def nothing_that_counted_is_gone(self):
        for key in KEYS:
            assert {text for k, text in self.counted if k == key} <= self.run(texts(self.store, key))

    def teardown(self):
        try:
            self.faulty.down = self.faulty.after = False
            self.agree()
            self.nothing_that_counted_is_gone()
        finally:
            os.fsync = self.fsync
            for vault in self.vaults:
                self.run(vault.close())
            self.run(self.store.close())
            self.runner.close()
            shutil.rmtree(self.folder)


def body(text):
    return (
        "c" if text.startswith("---\nn: ") and text.endswith("\n---\nc") else text.removeprefix("---\n---\n")
    )


TestVaults = Vaults.TestCase
TestVaults.settings = settings(
    max_examples=examples(15, 30),
    stateful_step_count=25,
    deadline=None,
    phases=[
        Phase.explicit,
        Phase.generate,
        Phase.shrink,
    ],  # explaining traces every line, which takes minutes
)

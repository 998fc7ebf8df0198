"""The rules take up to a second to import and to compile: nobody's event loop does that itself."""

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, re, sys, threading, types

from octavo.kernel import text

def compile_pattern(*given, made=re.compile):
    compiled.append(threading.current_thread() is threading.main_thread())
    return made(*given)

compiled = []
text.re = types.SimpleNamespace(**{**vars(re), "compile": compile_pattern})

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "octavo.layers.rules":
            on_loop.append(threading.current_thread() is threading.main_thread())

on_loop = []
sys.meta_path.insert(0, Watch())

from octavo import open_store
from octavo.layers import LayeredMemory

class Nothing:
    async def decide(self, *given, **named):
        return []

async def main(call):
    async with open_store("memory://") as store:
        memory = LayeredMemory(store, extractor=Nothing() if call == "reject" else None)
        if call == "remember":
            await memory.remember("I like tea.", user_id="lin")
        elif call == "extract":
            await memory.extract("I like tea.", user_id="lin")
        else:
            kept = await memory.remember("I like tea.", user_id="lin", layer="profile", category="preference")
            await memory.forget(kept.id, user_id="lin", forever=True)

asyncio.run(main(sys.argv[1]))
print(on_loop, compiled.count(True) < 50 < len(compiled) or sys.argv[1] == "reject")
"""


@pytest.mark.parametrize("call", ["remember", "extract", "reject"])
def test_the_first_call_imports_and_compiles_them_in_a_thread(call):
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, call], capture_output=True, text=True, timeout=120, check=False
    )
    assert (told.stdout, told.stderr) == ("[False] True\n", "")

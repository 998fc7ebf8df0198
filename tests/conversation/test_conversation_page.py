"""docs/conversation.md: what it shows is what happens, and it names every history, method and setting."""

import inspect
from pathlib import Path

from octavo import conversation
from octavo.conversation import BaseChatMemory, BaseChatMessageHistory, BaseMemory, BaseMessage
from one_program import prints_what_it_shows

PAGE = (Path(__file__).parents[2] / "docs" / "conversation.md").read_text(encoding="utf-8")


def test_every_block(tmp_path):
    """The blocks, one after the other as one program, print what stands under them."""
    prints_what_it_shows(PAGE, tmp_path)


def told(function):
    """A signature as the page spells it."""
    spelled = []
    for p in inspect.signature(function).parameters.values():
        default = f'"{p.default}"' if isinstance(p.default, str) else repr(p.default)
        spelled.append(p.name if p.default is p.empty else f"{p.name}={default}")
    return f"({', '.join(spelled)})"


def test_every_history_with_its_settings():
    kinds = [kind for kind in vars(conversation).values() if inspect.isclass(kind)]
    histories = [kind for kind in kinds if BaseChatMessageHistory in kind.__mro__[1:]]
    assert len(histories) == 4
    for kind in histories:
        assert f"`{kind.__name__}{told(kind)}`" in PAGE


def test_every_method_of_a_history():
    table = PAGE.partition("## Histories")[2].partition("## Memories")[0]
    methods = {
        name
        for name, value in vars(BaseChatMessageHistory).items()
        if callable(value) and not name.startswith(("_", "a")) and name != "refuse_deadlock"
    } | {name for name in vars(BaseChatMessageHistory) if name.startswith("add_")}
    for name in methods:
        arguments = ", ".join(list(inspect.signature(getattr(BaseChatMessageHistory, name)).parameters)[1:])
        assert f"`{name}({arguments})`" in table, name
        twin = getattr(BaseChatMessageHistory, f"a{name}")
        assert inspect.iscoroutinefunction(twin)


def test_every_message_and_every_setting():
    kinds = [kind for kind in vars(conversation).values() if inspect.isclass(kind)]
    messages = [kind for kind in kinds if BaseMessage in kind.__mro__[1:]]
    assert len(messages) == 6
    for named in (*messages, BaseMemory, BaseChatMemory):
        assert f"`{named.__name__}`" in PAGE
    for setting in inspect.signature(BaseChatMemory).parameters:
        assert f"`{setting}`" in PAGE, setting

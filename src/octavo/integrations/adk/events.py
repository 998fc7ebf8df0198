"""Events of Google's ADK as messages of the chat face."""

from typing import Any

from google.adk.events import Event

from octavo.chat.messages import Msg
from octavo.integrations.sessions import call_block, result_block, text_block

#: The mark of a message that a session service keeps, and of one that was not added to memory (yet, or any more).
EVENT, UNLEARNT = "adk_event", "adk_not_in_memory"
#: The mark of one that was deleted from memory: it is not to be added again.
DELETED = "adk_deleted_from_memory"


def to_message(event: Event) -> Msg:
    """What was said in an event, and the calls of tools with their results; it has the id of the event."""
    parts = (event.content.parts if event.content else None) or []
    blocks = [block for part in parts if (block := _block(part))]
    role: Any = "user" if event.author == "user" else "assistant" if parts else "system"
    message = Msg(event.author, blocks, role)
    message.id = event.id
    return message


def _block(part: Any) -> Any:
    if part.text and not part.thought:
        return text_block(part.text)
    if call := part.function_call:
        return call_block(call.id, call.name, call.args or {})
    if answer := part.function_response:
        return result_block(answer.id, answer.name, answer.response)
    return None

"""A history in Redis, as a list under the documented key. Needs the package `redis`, which is imported on use."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from octavo.conversation.histories import (
    BaseChatMessageHistory,
    Edit,
    State,
    check_count,
    plain_state,
    to_json,
)
from octavo.conversation.messages import BaseMessage, messages_from_dict, messages_to_dict
from octavo.errors import StoreError, StoreUnavailable
from octavo.util.system import import_extra
from octavo.util.user_code import Checked, Fixed

T = TypeVar("T")


def _seconds(ttl: int | None) -> int | None:
    if ttl is not None and ttl < 1:
        raise ValueError(f"ttl is a number of seconds from 1 on, or None to keep messages; got {ttl!r}")
    return ttl


class RedisChatMessageHistory(BaseChatMessageHistory):
    """Messages in the list `chat_history:{session}`, states in the hash `chat_history:{session}:state`.

    `key_prefix` stands in the place of `chat_history:`. Both are forgotten `ttl` seconds after the last write; `ttl=None` keeps them.
    """

    session_id: Fixed[str] = Fixed("make another history for another session")
    key_prefix: Fixed[str] = Fixed("make another history, with another key_prefix")
    key: Fixed[str] = Fixed("it follows from key_prefix and session_id")
    state_key: Fixed[str] = Fixed("it follows from key_prefix and session_id")
    ttl = Checked(_seconds)

    def __init__(
        self,
        session_id: str,
        url: str = "redis://localhost:6379",
        ttl: int | None = 24 * 60 * 60,
        *,
        key_prefix: str = "chat_history:",
    ) -> None:
        if not isinstance(session_id, str) or not session_id or session_id.endswith(":state"):
            raise ValueError(
                f"session_id is a string that is not empty and does not end in ':state'; got {session_id!r}"
            )
        self.session_id = session_id
        self.key_prefix = key_prefix
        self.key = f"{key_prefix}{session_id}"
        self.state_key = f"{self.key}:state"
        self.ttl = ttl
        self.redis_client: Any = _redis_client(url)  # its answers have types for two kinds of client at once

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        return self._range(0)

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        self._write(self._push(messages))

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return self._range(-n) if check_count("n", n) else []

    def count(self) -> int:
        """How many messages there are."""
        with _redis_errors():
            return int(self.redis_client.llen(self.key))

    def get_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        with _redis_errors():
            kept = self.redis_client.hget(self.state_key, name)
        state: State | None = None if kept is None else _parse(kept, self.state_key)
        return state

    def set_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        self._write([("HSET", self.state_key, name, to_json(plain_state(name, state)))])

    def clear(self) -> None:
        """Forget all messages and all states."""
        with _redis_errors():
            self.redis_client.delete(self.key, self.state_key)

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        self.redis_client.close()

    def _update(self, edit: Edit[T]) -> T:
        """Edit in one transaction, and edit anew when others have written meanwhile."""
        import redis

        with _redis_errors(), self.redis_client.pipeline(transaction=True) as batch:
            while True:
                batch.watch(self.key, self.state_key)
                read = self._messages_of(batch.lrange(self.key, 0, -1))
                kept = batch.hgetall(self.state_key)
                states_read = {_text(name): _parse(kept[name], self.state_key) for name in kept}
                held, states = list(read), dict(states_read)
                answer = edit(held, states)
                commands: list[tuple[Any, ...]] = [
                    ("HSET", self.state_key, name, to_json(states[name]))
                    for name in states
                    if states[name] != states_read.get(name)
                ]
                gone = len(read) - len(held)
                if held != read[gone:]:
                    commands += [("DEL", self.key), *self._push(held)]
                elif gone:
                    commands.append(("LTRIM", self.key, gone, -1))
                batch.multi()
                try:
                    self._send(batch, commands)
                except redis.WatchError:
                    continue
                return answer

    def _range(self, start: int) -> list[BaseMessage]:
        with _redis_errors():
            return self._messages_of(self.redis_client.lrange(self.key, start, -1))

    def _messages_of(self, kept: Sequence[bytes]) -> list[BaseMessage]:
        try:
            return messages_from_dict([_parse(one, self.key) for one in kept])
        except ValueError as error:
            raise StoreError(f"the Redis key {self.key} is not a list of messages: {error}") from error

    def _push(self, messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
        told = messages_to_dict(messages)
        return [("RPUSH", self.key, *map(to_json, told))] if told else []

    def _write(self, commands: Sequence[tuple[Any, ...]]) -> None:
        with _redis_errors(), self.redis_client.pipeline(transaction=True) as batch:
            self._send(batch, commands)

    def _send(self, batch: Any, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send these as one transaction, and have both keys live on."""
        if not commands:
            return
        for command in commands:
            batch.execute_command(*command)
        if self.ttl is not None:
            batch.expire(self.key, self.ttl)
            batch.expire(self.state_key, self.ttl)  # or a summary is forgotten before what follows it
        batch.execute()


def _redis_client(url: str) -> Any:
    redis = import_extra("redis", "redis", "RedisChatMessageHistory")
    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=30)
        client.connection_pool.make_connection()  # connects to nothing yet, but refuses an option it does not know
    except (TypeError, ValueError, redis.RedisError) as error:
        from octavo.stores.redis import refuse_options

        raise refuse_options(error) from error
    return client


@contextlib.contextmanager
def _redis_errors() -> Iterator[None]:
    import redis

    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise StoreUnavailable(f"Redis cannot be reached: {error}") from error
    except redis.RedisError as error:
        raise StoreError(f"Redis refused: {error}") from error


def _parse(kept: bytes | str, key: str) -> Any:
    try:
        return json.loads(kept)
    except ValueError as error:
        raise StoreError(f"the Redis key {key} holds what is no JSON: {error}") from error


def _text(kept: bytes | str) -> str:
    return kept if isinstance(kept, str) else kept.decode()

"""A history in Redis, as a list under the documented key. Needs the package `redis`, which is imported on use."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from octavo.conversation.histories import (
    BaseChatMessageHistory,
    Decide,
    State,
    at_least_zero,
    plain_state,
    to_json,
)
from octavo.conversation.messages import BaseMessage, messages_from_dict, messages_to_dict
from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.util.attributes import Checked, Fixed

if TYPE_CHECKING:
    from redis import Redis

_SECONDS_A_DAY = 86400
_TIMEOUTS = {"socket_connect_timeout": 5, "socket_timeout": 30}


def _seconds(ttl: int | None) -> int | None:
    if ttl is not None and ttl < 1:
        raise ValueError(f"ttl is a number of seconds from 1 on, or None to keep messages; got {ttl!r}")
    return ttl


class RedisChatMessageHistory(BaseChatMessageHistory):
    """Messages in the list `chat_history:{session}`, states in the hash `chat_history:{session}:state`.

    Both are forgotten `ttl` seconds after the last write; `ttl=None` keeps them.
    """

    session_id: Fixed[str] = Fixed("make another history for another session")
    key: Fixed[str] = Fixed("it follows from session_id")
    state_key: Fixed[str] = Fixed("it follows from session_id")
    ttl = Checked(_seconds)

    def __init__(
        self, session_id: str, url: str = "redis://localhost:6379", ttl: int | None = _SECONDS_A_DAY
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise ValueError(f"session_id is a string with at least one character; got {session_id!r}")
        if session_id.endswith(":state"):
            raise ValueError(
                f"a session id must not end in ':state', the key of its states; got {session_id!r}"
            )
        self.session_id = session_id
        self.key = f"chat_history:{session_id}"
        self.state_key = f"{self.key}:state"
        self.ttl = ttl
        self.redis_client: Any = _client(url)  # its answers have types for two kinds of client at once

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages, oldest first; assigning replaces them all."""
        return self._range(0)

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.replace(messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages in this order, all of them or none."""
        if messages:
            self._write(self._push(messages))

    def replace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others; states stay."""
        self._write(("DEL", self.key), *([self._push(messages)] if messages else []))

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return self._range(-at_least_zero("n", n)) if n else []

    def count(self) -> int:
        """How many messages there are."""
        with _translated():
            return int(self.redis_client.execute_command("LLEN", self.key))

    def get_state(self, name: str) -> State | None:
        """The state of this name, or None."""
        with _translated():
            return self._read_state(self.redis_client, name)

    def set_state(self, name: str, state: State) -> None:
        """Keep a state under this name, in place of the one before."""
        self._write(("HSET", self.state_key, name, to_json(plain_state(name, state))))

    def clear(self) -> None:
        """Forget all messages and all states."""
        with _translated():
            self.redis_client.execute_command("DEL", self.key, self.state_key)

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        self.redis_client.close()

    def _drop(self, decide: Decide, name: str = "", state: State | None = None) -> int | None:
        """Drop the oldest and keep the state as one transaction; decide again when others have written meanwhile."""
        import redis

        put = [] if state is None else [("HSET", self.state_key, name, to_json(plain_state(name, state)))]
        with _translated(), self.redis_client.pipeline(transaction=True) as batch:
            while True:
                batch.watch(self.key, self.state_key)
                held = self._read_messages(batch, 0)
                oldest = decide(held, self._read_state(batch, name) or {})
                if oldest is None or not (oldest or put):
                    return oldest
                batch.multi()
                try:
                    self._send(batch, *put, ("LTRIM", self.key, oldest, -1))
                except redis.WatchError:
                    continue
                return oldest

    def _range(self, start: int) -> list[BaseMessage]:
        with _translated():
            return self._read_messages(self.redis_client, start)

    def _read_messages(self, client: Any, start: int) -> list[BaseMessage]:
        kept = client.execute_command("LRANGE", self.key, start, -1)
        try:
            return messages_from_dict([_read(one, self.key) for one in kept])
        except ValueError as error:
            raise StoreError(f"the Redis key {self.key} is not a list of messages: {error}") from error

    def _read_state(self, client: Any, name: str) -> State | None:
        kept = client.execute_command("HGET", self.state_key, name)
        state: State | None = None if kept is None else _read(kept, self.state_key)
        return state

    def _push(self, messages: Sequence[BaseMessage]) -> tuple[str, ...]:
        return ("RPUSH", self.key, *(to_json(one) for one in messages_to_dict(messages)))

    def _write(self, *commands: tuple[Any, ...]) -> None:
        with _translated(), self.redis_client.pipeline(transaction=True) as batch:
            self._send(batch, *commands)

    def _send(self, batch: Any, *commands: tuple[Any, ...]) -> None:
        """Send these as one transaction, and have both keys live on."""
        for command in commands:
            batch.execute_command(*command)
        if self.ttl is not None:
            batch.execute_command("EXPIRE", self.key, self.ttl)
            # Or a summary would be forgotten before the messages that follow it.
            batch.execute_command("EXPIRE", self.state_key, self.ttl)
        batch.execute()


def _client(url: str) -> "Redis":
    try:
        import redis
    except ImportError as error:
        raise ConfigError(
            "RedisChatMessageHistory needs the package redis: pip install 'octavo[redis]'"
        ) from error
    try:
        client = redis.Redis.from_url(url, **_TIMEOUTS)
        client.connection_pool.make_connection()  # connects to nothing yet, but refuses an option it does not know
    except (TypeError, ValueError, redis.RedisError) as error:
        from octavo.stores.redis import refused

        raise refused(error) from error
    return client


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    import redis

    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise StoreUnavailable(f"Redis cannot be reached: {error}") from error
    except redis.RedisError as error:
        raise StoreError(f"Redis refused: {error}") from error


def _read(kept: bytes | str, key: str) -> Any:
    try:
        return json.loads(kept)
    except ValueError as error:
        raise StoreError(f"the Redis key {key} holds what is no JSON: {error}") from error

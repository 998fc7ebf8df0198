"""A history in Redis, as a list under the documented key. Needs the package `redis`, which is imported on use."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from octavo.conversation.histories import BaseChatMessageHistory, counted, position
from octavo.conversation.messages import BaseMessage, messages_from_dict
from octavo.conversation.spelling import plain, plain_state, spelled
from octavo.errors import ConfigError, StoreError, StoreUnavailable
from octavo.util.attributes import Checked, Fixed

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")
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
        if added := _spelled(messages):
            self._at_once(("RPUSH", self.key, *added))

    def replace(self, messages: Sequence[BaseMessage]) -> None:
        """Hold these messages in place of all others; states stay."""
        new = _spelled(messages)
        self._at_once(("DEL", self.key), *([("RPUSH", self.key, *new)] if new else []))

    def latest(self, n: int) -> list[BaseMessage]:
        """The newest `n` messages, oldest first."""
        return self._range(-counted("n", n)) if n else []

    def count(self) -> int:
        """How many messages there are."""
        with _translated():
            return int(self.redis_client.execute_command("LLEN", self.key))

    def trim(self, keep_last: int) -> int:
        """Drop all but the newest messages; answer how many went."""
        counted("keep_last", keep_last)
        cut = ("LTRIM", self.key, -keep_last, -1) if keep_last else ("DEL", self.key)
        held = int(self._at_once(("LLEN", self.key), cut)[0])
        return max(0, held - keep_last)

    def trim_before(self, kept: Sequence[BaseMessage]) -> int:
        """Drop what stands before these messages, which were read here; answer how many went."""

        def cut(batch: Any) -> tuple[int, list[tuple[Any, ...]]]:
            start = position(self._read_messages(batch, 0, -1), kept)
            return start, [("LTRIM", self.key, start, -1)] if start else []

        return self._unless_changed(cut)

    def get_state(self, name: str) -> dict[str, Any] | None:
        """The state of this name, or None."""
        with _translated():
            told = self.redis_client.execute_command("HGET", self.state_key, name)
        if told is None:
            return None
        state: dict[str, Any] = _read(told, self.state_key)
        return state

    def set_state(self, name: str, state: dict[str, Any]) -> None:
        """Keep a state under this name, in place of the one before."""
        self._at_once(("HSET", self.state_key, name, spelled(plain_state(name, state))))

    def fold(self, oldest: int, name: str, state: dict[str, Any]) -> None:
        """Put a state in place of the oldest messages, in one write."""
        self._at_once(
            ("HSET", self.state_key, name, spelled(plain_state(name, state))),
            ("LTRIM", self.key, counted("oldest", oldest), -1),
        )

    def fold_messages(
        self, messages: Sequence[BaseMessage], name: str, state: dict[str, Any], before: dict[str, Any]
    ) -> bool:
        """Put a state in place of the oldest messages and of the state before, unless others changed any of them."""
        told = spelled(plain_state(name, state))

        def fold(batch: Any) -> tuple[bool, list[tuple[Any, ...]]]:
            stated = batch.execute_command("HGET", self.state_key, name)
            oldest = self._read_messages(batch, 0, len(messages) - 1) if messages else []
            if ({} if stated is None else _read(stated, self.state_key)) != before or oldest != list(
                messages
            ):
                return False, []
            cut = ("LTRIM", self.key, len(messages), -1)
            return True, [("HSET", self.state_key, name, told), *([cut] if messages else [])]

        return self._unless_changed(fold)

    def clear(self) -> None:
        """Forget all messages and all states."""
        with _translated():
            self.redis_client.execute_command("DEL", self.key, self.state_key)

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        self.redis_client.close()

    def _range(self, start: int) -> list[BaseMessage]:
        with _translated():
            return self._read_messages(self.redis_client, start, -1)

    def _read_messages(self, client: Any, start: int, last: int) -> list[BaseMessage]:
        told = client.execute_command("LRANGE", self.key, start, last)
        try:
            return messages_from_dict([_read(one, self.key) for one in told])
        except ValueError as error:
            raise StoreError(f"the Redis key {self.key} is not a list of messages: {error}") from error

    def _at_once(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send these as one transaction, and have both keys live on."""
        with _translated(), self.redis_client.pipeline(transaction=True) as batch:
            return self._sent(batch, commands)

    def _sent(self, batch: Any, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        for command in commands:
            batch.execute_command(*command)
        if self.ttl is not None:
            batch.execute_command("EXPIRE", self.key, self.ttl)
            # Or a summary would be forgotten before the messages that follow it.
            batch.execute_command("EXPIRE", self.state_key, self.ttl)
        answers: list[Any] = batch.execute()
        return answers

    def _unless_changed(self, decide: Callable[[Any], tuple[T, list[tuple[Any, ...]]]]) -> T:
        """Send what is decided on what is there as one transaction; decide again when others have written meanwhile."""
        import redis

        with _translated(), self.redis_client.pipeline(transaction=True) as batch:
            while True:
                batch.watch(self.key, self.state_key)
                answer, commands = decide(batch)
                if not commands:
                    return answer
                batch.multi()
                try:
                    self._sent(batch, commands)
                except redis.WatchError:
                    continue
                return answer


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


def _spelled(messages: Sequence[BaseMessage]) -> list[str]:
    return [spelled(one) for one in plain(messages)]


def _read(told: bytes | str, key: str) -> Any:
    try:
        return json.loads(told)
    except ValueError as error:
        raise StoreError(f"the Redis key {key} holds what is no JSON: {error}") from error

"""Attributes that are never assigned in vain: one that is fixed refuses, one that may change is checked each time."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Fixed(Generic[T]):
    """An attribute that is given once, when its object is made: a value given later would not be looked at."""

    def __init__(self, cure: str) -> None:
        self._cure = cure

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> T: ...
    def __get__(self, holder: object | None, owner: type) -> Self | T:
        return self if holder is None else _held(holder, self._name)

    def __set__(self, holder: object, value: T) -> None:
        if self._name in holder.__dict__:
            raise AttributeError(f"{type(holder).__name__}.{self._name} cannot be changed: {self._cure}")
        holder.__dict__[self._name] = value


class Checked(Generic[T]):
    """An attribute whose value is checked whenever it is assigned, and not only when its object is made."""

    def __init__(self, check: Callable[[Any], T]) -> None:
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> T: ...
    def __get__(self, holder: object | None, owner: type) -> Self | T:
        return self if holder is None else _held(holder, self._name)

    def __set__(self, holder: object, value: Any) -> None:
        holder.__dict__[self._name] = self._check(value)


def _held(holder: object, name: str) -> Any:
    try:
        return holder.__dict__[name]
    except KeyError:
        raise AttributeError(f"{type(holder).__name__} has no {name} yet") from None

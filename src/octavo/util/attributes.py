"""Attributes that are never assigned in vain: one that is fixed refuses, one that may change is checked each time."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class _Attribute(Generic[T]):
    """An attribute whose value is in its holder's `__dict__`, under its own name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> T: ...
    def __get__(self, holder: object | None, owner: type) -> Self | T:
        if holder is None:
            return self
        try:
            value: T = holder.__dict__[self._name]
        except KeyError:
            raise AttributeError(f"{type(holder).__name__} has no {self._name} yet") from None
        return value


class Fixed(_Attribute[T]):
    """An attribute that is given once, when its object is made: a value given later would not be looked at."""

    def __init__(self, cure: str) -> None:
        self._cure = cure

    def __set__(self, holder: object, value: T) -> None:
        if self._name in holder.__dict__:
            raise AttributeError(f"{type(holder).__name__}.{self._name} cannot be changed: {self._cure}")
        holder.__dict__[self._name] = value


class Checked(_Attribute[T]):
    """An attribute whose value is checked whenever it is assigned, and not only when its object is made."""

    def __init__(self, check: Callable[[Any], T]) -> None:
        self._check = check

    def __set__(self, holder: object, value: Any) -> None:
        holder.__dict__[self._name] = self._check(value)

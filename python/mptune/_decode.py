"""Makes dataclasses of JSON: the types of the fields say what the JSON has to be."""
from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mptune._error import Error

R = TypeVar("R", bound="Result")
_REMEDY = "use a file or program of this version of mptune"
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", tuple: "a list", dict: "an object"}


@dataclass(frozen=True, kw_only=True)
class Result:
    """An object that the program printed as JSON. `json` is the object itself, with all that this version knows no field for."""

    json: Mapping[str, Any] = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """A few lines; all of it is in `json` and the fields."""
        from mptune._summary import summary

        return summary(self)

    @classmethod
    def from_json(cls: type[R], value: Any) -> R:
        """Makes one of what json.load returned. Unknown keys are ignored; raises mptune.Error, which names the place, for wrong types."""
        made: R = _object(value, cls, "")
        return made


def _refuse(value: Any, wanted: str, place: str) -> Error:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:40] + "..."
    return Error(f"{shown} is not {wanted}", f"JSON at {place or 'the top'}", _REMEDY)


@functools.cache
def _types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _object(value: Any, cls: type, place: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse(value, "an object", place)
    read: dict[str, Any] = {"json": value}
    for one in fields(cls):
        key = one.name.rstrip("_")  # class_ is "class"
        at = f"{place}.{key}" if place else key
        if one.name == "json":
            continue
        if key in value:
            read[one.name] = _value(value[key], _types(cls)[one.name], at)
        elif one.default is MISSING:
            raise Error("a part is missing", f"JSON at {at}", _REMEDY)
    return cls(**read)


def _value(value: Any, wanted: Any, place: str) -> Any:
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return _one_of(value, inner, place)
    if origin is Literal:
        return _literal(value, inner, place)
    if origin is tuple:
        return _list(value, inner, place)
    if origin is dict:
        return _mapping(value, inner[1], place)
    if isinstance(wanted, type) and issubclass(wanted, Result):
        return _object(value, wanted, place)
    return _plain(value, wanted, place)


def _plain(value: Any, wanted: type, place: str) -> Any:
    if wanted is float and type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    if type(value) is not wanted:
        raise _refuse(value, _NAMES[wanted], place)
    return value


def _literal(value: Any, choices: tuple[Any, ...], place: str) -> Any:
    if not any(value == choice and type(value) is type(choice) for choice in choices):
        raise _refuse(value, "one of " + ", ".join(map(repr, choices)) if len(choices) > 1 else repr(choices[0]), place)
    return value


def _list(value: Any, inner: tuple[Any, ...], place: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise _refuse(value, "a list", place)
    types = inner[:1] * len(value) if inner[1:] == (...,) else inner
    if len(types) != len(value):
        raise _refuse(value, f"a list of {len(types)}", place)
    return tuple(_value(one, wanted, f"{place}[{i}]") for i, (one, wanted) in enumerate(zip(value, types)))


def _mapping(value: Any, wanted: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse(value, "an object", place)
    return {key: _value(one, wanted, f"{place}.{key}") for key, one in value.items()}


def _one_of(value: Any, choices: tuple[Any, ...], place: str) -> Any:
    if value is None and NoneType in choices:
        return None
    *others, last = (choice for choice in choices if choice is not NoneType)
    for choice in others:
        try:
            return _value(value, choice, place)
        except Error:
            continue
    return _value(value, last, place)

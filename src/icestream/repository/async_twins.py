"""Async twins of blocking methods, made from them: nothing is written twice."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate

_END = object()


def async_twin[**P, R](method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return a coroutine function that runs a blocking method in a thread."""

    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, *args, **kwargs)

    return _renamed(twin, method)


def async_classmethod[C, **P, R](
    method: Callable[Concatenate[type[C], P], R],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return the async twin of a class method, given the function below the decorator."""

    @functools.wraps(method)
    async def twin(cls: type[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, cls, *args, **kwargs)

    return classmethod(_renamed(twin, method))  # type: ignore[return-value]  # bound on access


def async_iterator_twin[**P, T](
    method: Callable[P, Iterator[T]],
) -> Callable[P, AsyncIterator[T]]:
    """Return a function that yields what a blocking iterator yields, from a thread."""

    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        iterator = await asyncio.to_thread(method, *args, **kwargs)
        while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
            yield item  # type: ignore[misc]  # _END never gets here

    return _renamed(twin, method)


def _renamed[F: Callable[..., Any]](twin: F, method: Callable[..., Any]) -> F:
    twin.__name__ = f"{method.__name__}_async"
    twin.__qualname__ = f"{method.__qualname__}_async"
    twin.__doc__ = f"Await `{method.__name__}`."
    return twin

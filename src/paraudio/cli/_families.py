"""What the command line asks of the engine families."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from paraudio.spec import Task


class OnlyTasks(Mapping[str, Task]):
    """The task of each family that has only one; the families are imported when it is first read.

    Most configurations name every task, so that most commands need no family at all.
    """

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        from paraudio.engines.catalog import families  # noqa: PLC0415

        return {
            name: next(iter(family.tasks))
            for name, family in families().items()
            if len(family.tasks) == 1
        }

    def __getitem__(self, name: str) -> Task:
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

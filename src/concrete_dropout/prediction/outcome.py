"""What comes of one file, and what predicts files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from concrete_dropout.errors import UserError
from concrete_dropout.prediction.sources import Source


@dataclass(frozen=True)
class Outcome:
    """A file that was predicted.

    Attributes:
        values: plain numbers and texts about it: a row of the table of all files.
        files: what was written for it, below the folder of results.
    """

    values: dict[str, Any]
    files: tuple[str, ...] = field(default=())


class Predictor(Protocol):
    """Predicts files of one kind. Files are taken in blocks, whose composition the results may depend on."""

    def blocks(self, sources: Sequence[Source]) -> list[list[Source]]:
        """All files in order, in blocks that are predicted together."""

    def predict(
        self, block: Sequence[Source], waiting: Sequence[Source], number: int
    ) -> Iterator[tuple[Source, Outcome | UserError]]:
        """What comes of each file of ``waiting``, which are those of the block that are not finished.

        Args:
            block: the files.
            waiting: those that are wanted.
            number: of the block, from 0.
        """


class OneByOne(ABC):
    """A predictor of files that have nothing to do with each other."""

    @abstractmethod
    def one(self, source: Source) -> Outcome:
        """Read, predict, write.

        Raises:
            UserError: this file cannot be predicted; the others are not concerned.
        """

    def blocks(self, sources: Sequence[Source]) -> list[list[Source]]:
        """One file each."""
        return [[source] for source in sources]

    def predict(
        self, block: Sequence[Source], waiting: Sequence[Source], number: int
    ) -> Iterator[tuple[Source, Outcome | UserError]]:
        """What comes of the file, if it is wanted."""
        for source in waiting:
            try:
                yield source, self.one(source)
            except UserError as error:
                yield source, error

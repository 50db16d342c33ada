"""The pages of R in one process, and the rule by which R has outgrown them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.operators.lookup.reader import ReadFigures
    from endmark.relation.contract import PageDirectory


@dataclass
class HeldPages:
    """The pages of R.

    Rows that R gets lie on the pages that were there. If keys ascend, all new rows lie on the last page.

    Args:
        rows: the number of rows on a page when the directory was read.
        directory: the directory of the pages.
        grown: the number of keys that reads have found on pages beyond `rows` for each page.
    """

    rows: int
    directory: PageDirectory
    grown: int = 0

    @property
    def is_outgrown(self) -> bool:
        """True if reads have found as many keys too many as R had rows.

        To read a directory anew walks through the index of all of R, so it pays only then.
        """
        return self.grown >= self.rows * len(self.directory)

    def note(self, figures: ReadFigures) -> None:
        """Note the keys that the reads of a batch have found on pages."""
        self.grown += max(0, figures.page_keys - self.rows * figures.pages)

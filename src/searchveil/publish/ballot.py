"""One vote of each user: for the first item of her list that still takes votes. docs/guarantees/votes.md."""

from dataclasses import dataclass

import numpy as np

from searchveil.privacy.noise import Integers, Source


@dataclass(frozen=True)
class Ballot:
    """Every user's items as a list, the next after the last, users in the order of their turns."""

    items: Integers
    ends: Integers  # of each user's list
    number_of_items: int

    @classmethod
    def drawn(cls, users: Integers, items: Integers, number_of_items: int, source: Source) -> "Ballot":
        """Turns and lists in a uniform order, which depends on nothing else."""
        turns = source.order(int(users.max(initial=-1)) + 1)[users]
        bits = np.uint64(64 - int(turns.max(initial=0)).bit_length())
        while True:  # keys are drawn anew if two of one user agree
            keys = turns.astype(np.uint64) << bits | source.words(len(items)) >> (np.uint64(64) - bits)
            listed = np.argsort(keys)
            if np.all(keys[listed[1:]] != keys[listed[:-1]]):
                break
        sizes = np.bincount(turns)
        return cls(items[listed], np.cumsum(sizes[sizes > 0]), number_of_items)

    def sorted(self, by: Integers) -> "Ballot":
        """Items with the larger number first in every list; equal ones stay in their order."""
        starts = np.concatenate([[0], self.ends])
        users = np.repeat(np.arange(len(self.ends)), np.diff(starts))
        return Ballot(self.items[np.lexsort((-by[self.items], users))], self.ends, self.number_of_items)

    def first_choices(self) -> Integers:
        """How many lists each item is the first of."""
        starts = np.concatenate([[0], self.ends])[:-1]
        return np.bincount(self.items[starts], minlength=self.number_of_items)

    def votes(self, most: int) -> Integers:
        """What each item gets where users vote in turn, each for the first item of her list with fewer than `most`.

        All ask at once; of those who want the same item, the first in turn keep it, and the others ask for their next.
        Who lost an item has `most` users before her there, whose turns only get earlier: so the end is the same.
        """
        place = np.concatenate([[0], self.ends])[:-1]
        wanted = np.full(len(self.ends), -1, np.int64)  # the item that a user votes for as far as is known
        votes = np.zeros(self.number_of_items, np.int64)
        asking = np.arange(len(self.ends))
        while len(asking):
            wanted[asking] = self.items[place[asking]]
            votes += np.bincount(wanted[asking], minlength=self.number_of_items)
            rivals = np.flatnonzero((wanted >= 0) & (votes[wanted] > most))
            rivals = rivals[np.argsort(wanted[rivals], kind="stable")]  # by item, in turn
            of_item = wanted[rivals]
            first = np.flatnonzero(np.diff(of_item, prepend=-1))
            rank = np.arange(len(rivals)) - np.repeat(first, np.diff([*first, len(rivals)]))
            lost = rivals[rank >= most]
            wanted[lost] = -1
            place[lost] += 1
            np.minimum(votes, most, out=votes)
            asking = np.sort(lost[place[lost] < self.ends[lost]])
        return votes

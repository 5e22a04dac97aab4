"""How good is a ranking? The usual measures, by ir-measures."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]


def best_first(scores: Floats, names: Ints, depth: int) -> Ints:
    """The `depth` names of highest score; equal scores in the order of the names.

    Scores are compared as single precision: sums that differ only by the order in which they were added are equal.
    """
    rounded = scores.astype(np.float32)
    if len(rounded) > depth:
        enough = rounded >= np.partition(rounded, -depth)[-depth]
        rounded, names = rounded[enough], names[enough]
    return names[np.lexsort((names, -rounded))[:depth]]


def judge(
    rankings: Mapping[str, Sequence[str]], relevance: Mapping[str, Mapping[str, int]], measures: Sequence[str]
) -> dict[str, float]:
    """The mean of each measure over the rankings there are; 0 where there is none. AP is reported as MAP.

    What is ranked goes to ir-measures by its place, not its score or text: trec_eval rounds scores and breaks ties
    in an order of its own.
    """
    names = {measure: "MAP" if measure == "AP" else measure for measure in measures}
    if not rankings:
        return dict.fromkeys(names.values(), 0.0)
    import ir_measures

    run, judgements = {}, {}
    for number, (asked, ranking) in enumerate(rankings.items()):
        places = {name: str(place) for place, name in enumerate(ranking)}
        run[str(number)] = {place: float(-int(place)) for place in places.values()}
        judgements[str(number)] = {
            places.get(name, f"missing {i}"): grade for i, (name, grade) in enumerate(relevance[asked].items())
        }
    wanted = {name: ir_measures.parse_measure(measure) for measure, name in names.items()}
    means = ir_measures.calc_aggregate(list(wanted.values()), judgements, run)
    return {name: float(means[measure]) for name, measure in wanted.items()}


def answered(scores: dict[str, float], number: int, asked: int, *, headline: str) -> dict[str, float]:
    """The scores over what could be answered, as the papers report them, and what they leave out.

    Who answers only easy questions scores high on those: `headline` is given once more with silence counted as 0.
    """
    over_all = scores[headline] * number / asked if asked else 0.0
    return {**scores, f"{headline} over all": over_all, "answered": float(number), "asked": float(asked)}

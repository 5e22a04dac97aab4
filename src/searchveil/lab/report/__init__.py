"""An evaluation as a page for people: one file that opens without a network."""

from searchveil.lab.report.report import check_place, place_beside, report, write_report
from searchveil.lab.report.table import Row, Section, in_figures, sections

__all__ = [
    "Row",
    "Section",
    "check_place",
    "in_figures",
    "place_beside",
    "report",
    "sections",
    "write_report",
]

"""The tables and figures of Mind the Gap: what the paper prints, what ours come to, and how to run them again."""

from mechgap.report.paper.catalogue import find_items as find_items
from mechgap.report.paper.catalogue import load_items as load_items
from mechgap.report.paper.catalogue import load_studies as load_studies
from mechgap.report.paper.lines import paper_table as paper_table
from mechgap.report.paper.runs import run_item as run_item

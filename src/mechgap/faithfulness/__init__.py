"""Stage 5: how faithful trained networks are to the algorithm they learned; one file per question."""

from mechgap.faithfulness.mechanistic_gap import Gap as Gap
from mechgap.faithfulness.mechanistic_gap import gap as gap
from mechgap.faithfulness.mechanistic_gap import load_gap as load_gap

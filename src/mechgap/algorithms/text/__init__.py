"""CLRS-Text: the thirty algorithms as questions and answers, both ways."""

from mechgap.algorithms.text.layout import ALGORITHMS as ALGORITHMS
from mechgap.algorithms.text.parsing import parse as parse
from mechgap.algorithms.text.parsing import parse_answer as parse_answer
from mechgap.algorithms.text.parsing import split as split
from mechgap.algorithms.text.sampling import sample as sample
from mechgap.algorithms.text.scores import Score as Score
from mechgap.algorithms.text.scores import ScoreRow as ScoreRow
from mechgap.algorithms.text.scores import floor as floor
from mechgap.algorithms.text.scores import score as score
from mechgap.algorithms.text.scores import score_table as score_table
from mechgap.algorithms.text.tokens import BOS as BOS
from mechgap.algorithms.text.tokens import EOS as EOS
from mechgap.algorithms.text.tokens import PAD as PAD
from mechgap.algorithms.text.tokens import VOCABULARY as VOCABULARY
from mechgap.algorithms.text.tokens import Batch as Batch
from mechgap.algorithms.text.tokens import batch as batch
from mechgap.algorithms.text.tokens import decode as decode
from mechgap.algorithms.text.tokens import encode as encode
from mechgap.algorithms.text.writing import Example as Example
from mechgap.algorithms.text.writing import Question as Question
from mechgap.algorithms.text.writing import examples as examples
from mechgap.algorithms.text.writing import right_answers as right_answers
from mechgap.algorithms.text.writing import write as write

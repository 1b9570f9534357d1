"""CLRS-Text: the thirty algorithms as questions and answers, both ways."""

from mechgap.algorithms.text.layout import ALGORITHMS as ALGORITHMS
from mechgap.algorithms.text.sampling import sample as sample
from mechgap.algorithms.text.writing import Example as Example
from mechgap.algorithms.text.writing import Question as Question
from mechgap.algorithms.text.writing import examples as examples
from mechgap.algorithms.text.writing import right_answers as right_answers
from mechgap.algorithms.text.writing import write as write

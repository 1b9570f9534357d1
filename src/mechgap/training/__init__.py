"""Stage 4b: data -> weights. Hundreds of networks train as one program."""

from mechgap.training.checkpoint import load_result as load_result
from mechgap.training.checkpoint import save_excerpt as save_excerpt
from mechgap.training.config import TrainConfig as TrainConfig
from mechgap.training.loop import fit as fit
from mechgap.training.loop import train as train
from mechgap.training.result import Ensemble as Ensemble
from mechgap.training.weights import load_networks as load_networks
from mechgap.training.weights import save_networks as save_networks

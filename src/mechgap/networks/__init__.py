"""Stage 3: the network classes that programs are compiled into and that training fits."""

from mechgap.networks.clrs_net import Activations as Activations
from mechgap.networks.clrs_net import ClrsNet as ClrsNet
from mechgap.networks.clrs_net import Prediction as Prediction
from mechgap.networks.clrs_net import Record as Record
from mechgap.networks.clrs_net import Replacement as Replacement
from mechgap.networks.config import NetConfig as NetConfig
from mechgap.networks.execution import predict as predict
from mechgap.networks.execution import run as run
from mechgap.networks.gat import GAT as GAT
from mechgap.networks.gatv2 import GATv2 as GATv2
from mechgap.networks.layers import LayerNorm as LayerNorm
from mechgap.networks.layers import Linear as Linear
from mechgap.networks.message_passing import MessagePassing as MessagePassing
from mechgap.networks.padding import pad_nodes as pad_nodes
from mechgap.networks.postprocessing import postprocess as postprocess
from mechgap.networks.processor import Attention as Attention
from mechgap.networks.processor import Processor as Processor
from mechgap.networks.reference_names import from_reference as from_reference
from mechgap.networks.reference_names import to_reference as to_reference

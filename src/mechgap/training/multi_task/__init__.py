"""One network for many algorithms: a shared processor, and encoders and decoders for each of them."""

from mechgap.training.multi_task.config import MultiTaskConfig
from mechgap.training.multi_task.loop import MultiTask, load_multi_task, train_together

__all__ = ["MultiTask", "MultiTaskConfig", "load_multi_task", "train_together"]

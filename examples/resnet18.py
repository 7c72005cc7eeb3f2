"""ResNet-18 as two teams published it: transformers' for PyTorch, paddle.vision's for PaddlePaddle."""

import numpy as np
import paddle
import torch
from transformers import ResNetConfig, ResNetForImageClassification

import optrace

torch.manual_seed(0)
config = ResNetConfig(
    depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic", num_labels=10
)
base = ResNetForImageClassification(config)
raw = paddle.vision.models.resnet18(num_classes=10)
images = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype("float32")
base.train()(torch.from_numpy(images))  # gives the batch norms statistics, as training does

print("1. Carry the weights over, without a map of names\n")
weights = optrace.assign_weight(base, raw, (images,))
print(str(weights).splitlines()[0])

print("\n2. Compare the two models\n")
report = optrace.auto_diff(base, raw, (images,), auto_init=False)
print(report)
assert report, "the pair should be aligned"

print("\n3. Change one argument of the port, and compare again\n")
raw.layer3[1].bn2._epsilon = 1e-3
report = optrace.auto_diff(base, raw, (images,), auto_init=False)
print(report)
assert report.first is not None
assert report.first.argument is not None and report.first.argument.startswith("eps")

"""Lets torchvision be imported where its compiled part does not load, as when a build for CUDA meets a torch for the CPU: timm and
transformers import it, and use none of the operators in that part.

scripts/python_tests.sh copies this file into such an environment and has it imported at the start of every interpreter (by a `.pth`
file, since Debian has a sitecustomize of its own). It does nothing until torchvision is imported.
"""

import importlib.abc
import sys

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Defines the operators that torchvision registers Python functions for, then leaves the import to others."""

    library = None  # definitions last as long as this object

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torchvision":
            import torch

            sys.meta_path.remove(self)
            BeforeTorchvision.library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                self.library.define(name + SCHEMA)
        return None


sys.meta_path.insert(0, BeforeTorchvision())

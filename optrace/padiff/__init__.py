"""PaDiff's names on optrace: ``from optrace.padiff import *`` instead of ``from padiff import *``.

The differences are listed in ``docs/padiff.md``.
"""

from optrace.padiff.auto import assign_weight, auto_diff
from optrace.padiff.checks import check_dataloader, check_grads, check_params, check_report, check_weights
from optrace.padiff.layer_map import LayerMap, add_special_init
from optrace.padiff.proxy import ProxyModel, create_model, get_dump_root_path, set_dump_root_path

__all__ = [
    "LayerMap",
    "ProxyModel",
    "add_special_init",
    "assign_weight",
    "auto_diff",
    "check_dataloader",
    "check_grads",
    "check_params",
    "check_report",
    "check_weights",
    "create_model",
    "get_dump_root_path",
    "set_dump_root_path",
]

"""Carrying weights from one model, or one checkpoint format, to another."""

from optrace.weights.assign import assign_weight
from optrace.weights.convert import ConversionReport, convert_checkpoint
from optrace.weights.report import WeightReport
from optrace.weights.rules_from_models import rules_from_models
from optrace.weights.special import add_special_init

__all__ = [
    "ConversionReport",
    "WeightReport",
    "add_special_init",
    "assign_weight",
    "convert_checkpoint",
    "rules_from_models",
]

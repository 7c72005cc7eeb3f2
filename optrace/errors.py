"""Every error a user can cause. Each text says what to do about it."""


class OptraceError(Exception):
    """Base of all errors that optrace raises on purpose."""


class FrameworkMissing(OptraceError):
    """A framework that is needed is not installed or not imported."""


class TraceError(OptraceError):
    """A trace can't be read or written."""


class ComparisonError(OptraceError):
    """Two traces can't be compared: nothing in common, the same trace twice, other inputs."""


class InputError(OptraceError):
    """The inputs do not fit a model."""


class ModelError(OptraceError):
    """A model raised while it was traced; the trace up to there is in ``.trace``."""

    trace = None


class WeightError(OptraceError):
    """Weights could not be carried over; nothing was assigned."""


class ConversionError(OptraceError):
    """A checkpoint could not be converted."""


class OpTableError(OptraceError):
    """A file of the op table is malformed."""


class ReplayError(OptraceError):
    """Random draws could not be replayed."""

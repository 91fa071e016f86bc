"""The errors of this package; every message says what is wrong, where, and what to do."""


class RationalesError(Exception):
    """A mistake in the arguments or the inputs; the message says what, where, and what to do."""


class ModelError(RationalesError):
    """A model that cannot be found, loaded or explained."""


class InputError(RationalesError):
    """An input that cannot be explained."""


class OptionError(RationalesError):
    """An option that does not exist or has no such value."""


class DataError(RationalesError):
    """A data set that cannot be found or read."""

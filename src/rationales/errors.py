"""The errors of this package; every message says what is wrong, where, and what to do."""


class RationalesError(Exception):
    """A mistake in the arguments or the inputs; the message says what, where, and what to do."""


class ModelError(RationalesError):
    """A model that cannot be found, loaded or explained."""


class NotApplicableError(ModelError):
    """A method that is not defined for this kind of network, whatever its options; a table shows n/a."""


class InputError(RationalesError):
    """An input that cannot be explained."""


class OptionError(RationalesError):
    """An option that does not exist or has no such value."""


class DataError(RationalesError):
    """A data set that cannot be found or read."""

"""What goes wrong, said so that a person knows what to do next."""


class RationalesError(Exception):
    """A mistake in what was asked for or in what was given; the message says what, where, and what to do."""


class ModelError(RationalesError):
    """A model that cannot be found, loaded or explained."""


class InputError(RationalesError):
    """An input that cannot be explained."""


class OptionError(RationalesError):
    """An option that does not exist or has no such value."""


class DataError(RationalesError):
    """A data set that cannot be found or read."""

"""Why a program cannot become a network: one type per reason, each naming the expression."""


class NotExpressible(ValueError):  # noqa: N818 - it says what is the case, like the messages do
    """The program needs a construct that the network has not, or not in one step."""


class ChannelOverflow(ValueError):  # noqa: N818
    """The program needs more channels than the hidden size has."""


class PrecisionError(ValueError):
    """The dtype cannot resolve what the program must tell apart at this size or range."""


class DomainError(ValueError):
    """An input lies outside what the compiled network was built for."""


class UnclearChoice(UserWarning):
    """A choice is closer than the network can tell apart: what lies behind it may differ from the program's."""

"""Updates -> the hidden state's next channels, each one ReLU of what the node hears, its edge, and itself."""

from mechgap.compiler.affine import Affine
from mechgap.compiler.constants import Numbers
from mechgap.compiler.layout import (
    Copy,
    Flag,
    LatestWrite,
    Reader,
    Relaxation,
    Storage,
    WriteOnce,
    channel,
    value_range,
)
from mechgap.programs.expressions import Expression, Read, replaced


def lower_updates(reader: Reader, numbers: Numbers) -> dict[str, Affine]:
    """Channel -> the form whose ReLU is its next value; places are me, the sender and the sender's edge."""
    forms: dict[str, Affine] = {}
    for storage in reader.storages.values():
        forms |= zip(storage.channels, _forms(storage, reader, numbers), strict=True)
    return forms


def slow_channels(storages: dict[str, Storage]) -> dict[str, float]:
    """The channels whose form is never negative, so linear in the step before, and the largest value of each."""
    slow: dict[str, float] = {}
    for storage in storages.values():
        low, high = value_range(storage.variable)
        match storage:
            case Flag() | WriteOnce():
                slow[storage.channels[0]] = 1.0
            case Relaxation():
                slow[storage.channels[0]] = high - low
            case LatestWrite():
                slow |= {storage.channels[2]: 1.0, storage.channels[3]: 1.0}
    return slow


def _forms(storage: Storage, reader: Reader, numbers: Numbers) -> tuple[Affine, ...]:
    name, own = storage.variable.name, [channel(c) for c in storage.channels]
    init = reader.lower(storage.variable.init)
    match storage:
        case Flag():
            # Where the flag is raised from the start, the channel stays 0: the value is init + channel.
            return (reader.lower(Read(reader.select, name)) - init,)
        case Copy():
            change = reader.lower(_copied(reader, name)) - init
            return change, -change
        case Relaxation(sign=sign, offers=offers):
            total = sign * (reader.value(name) - init)
            gains = [sign * (reader.lower(offer) - reader.value(name)) for offer in offers]
            if len(gains) == 1:
                return total, gains[0]
            p, q = gains
            return total, p, p - q, -q
        case WriteOnce(flag=flag, written=written):
            raised = channel(reader.storages[flag].channels[0])
            is_open = Affine(constant=1.0) - reader.lower(Read(reader.select, flag))
            from_start = reader.lower(reader.storages[flag].variable.init)
            # Gates are 0 where open, so that what passes is copied bit for bit; 2 closes anything in [0, 1].
            return (
                is_open,
                reader.lower(written) - 2.0 * raised,
                own[1] + own[2] - 2.0 * own[0] - 2.0 * from_start,
            )
        case LatestWrite(written=written):
            now = reader.lower(written) - init
            gate = (2.0 / numbers.min_gap) * (own[0] + own[1])  # at least 2 if the last step wrote, else 0
            return now, -now, own[0], own[1], own[2] + own[4] - gate, own[3] + own[5] - gate
    raise TypeError(f"No update for {storage!r}.")


def _copied(reader: Reader, name: str) -> Expression:
    """The update of a copied variable; 'mine if nobody is chosen, else the sender's' is the sender's: it is then me."""
    update = dict(reader.program.updates)[name]
    theirs = Read(reader.select, name)
    return theirs if replaced(theirs, reader.select, "me") == getattr(update, "then", None) else update

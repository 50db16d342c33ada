"""The promises of a stage: which of its inputs close keys, and which columns announced patterns restrict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.pipeline.stage import Stage


class StagePromises:
    """The columns that promises restrict on their way through one stage, and the keys that they close.

    Args:
        stage: the stage.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self._pipeline = stage, stage.pipeline

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams whose promises restrict columns of results: those shown and hidden by semi joins."""
        found = self._stage.streams_of(self._stage.shown_inputs, lambda earlier: earlier.promises.streams)
        return (*found, *(given for given in self._stage.streams if given not in self._stage.shown_inputs))

    def restricted_column(self, stream: str, column: str) -> str | None:
        """Return the column of results that a promise restricts, given one of an input of this stage.

        Results of a semi join have no column of the right stream. Its promises on the key are announced for
        the key of the left one, and its other promises are not announced: `None`.
        """
        if stream in self._stage.shown_inputs:
            return f"{stream}_{column}"
        if column not in self._stage.key:
            return None
        return self._stage.key_columns(self._stage.shown_inputs[0])[self._stage.key.index(column)]

    @property
    def announced_columns(self) -> tuple[str, ...]:
        """The columns of results that announced patterns may restrict."""
        stage, earlier, found = self._stage, self._stage.earlier, list[str]()
        for given in stage.shown_inputs:
            own = self._pipeline.inputs[given].promised_on if given in stage.streams else ()
            found += [*stage.key_columns(given), *(f"{given}_{column}" for column in own)]
        if earlier is not None and stage.derived in stage.shown_inputs:
            found += earlier.promises.announced_columns
        return tuple(dict.fromkeys(found))

    @property
    def beside_key(self) -> tuple[str, ...]:
        """The columns that promises of the derived stream may restrict, without those of the key."""
        earlier = self._stage.earlier
        if earlier is None or not earlier.announces:
            return ()
        columns = earlier.promises.announced_columns
        return tuple(column for column in columns if self._stage.key_name(column) is None)

    def closes_keys(self, given: str) -> bool:
        """Return whether an input can close keys, by punctuations or by a declaration.

        A union can if all of its members can.
        """
        if given == self._stage.derived:
            return bool(self.closers)
        return all(map(self.closes_key, self._pipeline.flow.members_of(given)))

    def closes_key(self, stream: str) -> bool:
        """Return whether a stream can close keys, as `closes_keys` does, or does its part in a union."""
        return bool(self._pipeline.streams[stream].ordered) or self._closes_without_order(stream)

    def _closes_without_order(self, stream: str) -> bool:
        declared, key = self._pipeline.streams[stream], set(self._stage.key)
        rule = set(declared.closes.on) if declared.closes else set()
        promised = {*declared.punctuated_on, *(rule if rule <= key else ())}
        return bool(declared.unique or declared.clustered) or key <= promised

    def announces_keys(self, given: str) -> bool:
        """Return whether an input closes keys that are announced.

        A key that only orders have closed is not announced. So the next stage does not learn that it is over.
        """
        return all(map(self._closes_without_order, self._pipeline.flow.members_of(given)))

    @property
    def closers(self) -> dict[str, tuple[str, ...]]:
        """The streams of the stage before whose patterns close keys of the derived stream.

        Each has the columns of the key that its patterns restrict.
        """
        stage, earlier = self._stage, self._stage.earlier
        if earlier is None or not earlier.announces or stage.derived is None:
            return {}
        found = {}
        for stream in earlier.promises.streams:
            taking = self._pipeline.stage_of(stream)
            own = {
                column
                for column in self._pipeline.inputs[stream].promised_on
                if (shown := taking.promises.restricted_column(stream, column))
                and stage.key_name(shown) is not None
            }
            restricted = self._pipeline.restricted(stream, own)
            if stage.same_key and stream in earlier.inputs and earlier.promises.announces_keys(stream):
                restricted = earlier.key
            if restricted:
                found[stream] = restricted
        return found

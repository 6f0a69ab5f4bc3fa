"""The actions of rules, applied to the fate of one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from trimaran.faults import response_edits
from trimaran.faults.actions import (
    AdvertiseAddress,
    AnswerError,
    ChangeField,
    CorruptRecords,
    DelayFrame,
    DropFrame,
    DuplicateFrame,
    EndConnection,
    FaultAction,
    HoldFrame,
    ShowLeaders,
    Side,
    StaySilent,
    ThrottleBytes,
    TruncateResponse,
)
from trimaran.faults.error_places import chosen_place
from trimaran.faults.fates import RequestFate
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.matcher import RequestItem, complete_item, item_matches, top_roles
from trimaran.faults.places import Roles
from trimaran.faults.rules import FaultRule
from trimaran.faults.verdicts import LimitRate, WaitRelease, WaitSeconds


@dataclass(slots=True)
class RuleApplication:
    """One rule that applies to one request. `tickets` are those of frames that it holds."""

    faults: FaultSet
    rule: FaultRule
    fate: RequestFate
    items: list[RequestItem]
    random: Random
    tickets: list[int]

    def run(self, action: FaultAction) -> str:
        """Applies an action; returns its description for the trace."""
        match action:
            case AnswerError():
                return self._fail(action)
            case ChangeField(side, path, value):
                self._edit(side, lambda message: response_edits.change_field(message, path, value))
                return f"{side} {path} = {value!r}"
            case DelayFrame(time, side):
                seconds = time.draw(self.random)
                self._before(side).append(WaitSeconds(seconds))
                return f"delay {side} {seconds:.6g} s"
            case HoldFrame(side):
                ticket = self.faults.held.hold(self.rule.name)
                self.tickets.append(ticket)
                self._before(side).append(WaitRelease(ticket))
                return f"hold {side}"
            case ThrottleBytes(rate):
                self.fate.before_response.append(LimitRate(rate))
                return f"throttle {rate:g} bytes/s"
            case ShowLeaders() | AdvertiseAddress() | CorruptRecords():
                return self._falsify(action)
            case _:
                return self._end(action)

    def _end(self, action: FaultAction) -> str:
        fate = self.fate
        match action:
            case DropFrame(side):
                fate.dropped.add(side)
                return f"drop {side}"
            case DuplicateFrame(side):
                fate.doubled.add(side)
                return f"duplicate {side}"
            case EndConnection(moment, by_reset):
                fate.end = action
                return f"{'reset' if by_reset else 'close'} {moment}"
            case StaySilent():
                fate.is_silent = True
                return "half-open"
            case TruncateResponse(size):
                fate.truncated = size
                return f"truncate response to {size} bytes"
            case _:
                raise AssertionError(action)

    def _before(self, side: Side) -> list[Any]:
        return self.fate.before_request if side is Side.REQUEST else self.fate.before_response

    def _edit(self, side: Side, change: Callable[[Any], object]) -> None:
        if side is Side.REQUEST:
            self.fate.copy_request()  # observations keep the request as the client has sent it
            change(self.fate.request)
        else:
            self.fate.edits.append(change)

    def _fail(self, action: AnswerError) -> str:
        request, version = self.fate.request, self.fate.version
        target = chosen_place(action, self.rule.match.item_roles, request.KEY, version)
        if target is None:
            return f"no place for {action.code.name} in version {version}"
        if target.place is None:
            self.fate.fail_top(action.code, applied=action.applied)
        else:
            self.fate.fail_items(
                target.place, self.items, self._is_chosen, action.code, applied=action.applied
            )
        return f"error {action.code.name}{' after it was applied' if action.applied else ''}"

    def _is_chosen(self, roles: Roles) -> bool:
        """Whether the rule concerns an item of the response."""
        request = self.fate.request
        item = complete_item(top_roles(request) | roles, request, self.faults.names)
        return item_matches(self.rule.match, item)

    def _falsify(self, action: ShowLeaders | AdvertiseAddress | CorruptRecords) -> str:
        match action:
            case ShowLeaders(fault):
                first = self.faults.first_leaders
                self.fate.edits.append(
                    lambda response: response_edits.show_leaders(
                        response, fault, first, self._is_chosen
                    )
                )
                return f"{fault} leaders"
            case AdvertiseAddress(address):
                self.fate.edits.append(lambda response: response_edits.advertise(response, address))
                return f"advertise {address}"
            case CorruptRecords(side):
                self._edit(
                    side,
                    lambda message: response_edits.corrupt_records(message, self._is_chosen),
                )
                return f"corrupt {side}"

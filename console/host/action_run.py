"""ActionRun: one action from its request to the end that is known of it, also over a broken link. Sends only once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from console.agent import protocol
from console.agent.protocol import Identity, printable
from console.host import actions
from console.host.actions import Conversation, Outcome, Plan
from console.host.errors import ActionRefused, LinkError, RequestError

WAIT_UP_S = 30.0
"""How long one wait for the link lasts before the next one; together they last until the operator gives up."""

RETRY_S = 1.0


class ReconnectingConversation(Conversation, Protocol):
    """A conversation that comes back after it broke; :class:`console.host.link.HostLink` is one."""

    async def wait_up(self, deadline_s: float) -> None:
        """Return once the link is up.

        Raises:
            LinkError: it is not up within ``deadline_s``, or must not be tried again.
        """
        ...


class ActionRun:
    """Carries out one plan and keeps what is known of it; outlives the dialog that shows it."""

    def __init__(
        self,
        link: ReconnectingConversation,
        plan: Plan,
        *,
        action_id: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        retry_s: float = RETRY_S,
    ) -> None:
        """Prepare the run of ``plan``; nothing is sent before :meth:`run`."""
        self.plan = plan
        self.action_id = action_id or actions.new_action_id()
        self.outcome = Outcome(self.action_id, plan.action, phase="checking", grace_s=plan.grace_s)
        """The last that the host said."""
        self.trouble = ""
        """What stands between the operator and the outcome, a sentence; empty while nothing does."""
        self.finished = False
        self.never_sent = False
        """True once it is certain that the request did not reach the host."""
        self._link = link
        self._clock = clock
        self._retry_s = retry_s
        self._started = clock()
        self._ended: float | None = None
        self._watchers: list[Callable[[], None]] = []

    @property
    def elapsed_s(self) -> float:
        """Seconds since :meth:`run` began, by the operator's clock; stands still at the end."""
        return (self._clock() if self._ended is None else self._ended) - self._started

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on every change; return a function that ends it."""
        self._watchers.append(callback)

        def stop() -> None:
            if callback in self._watchers:
                self._watchers.remove(callback)

        return stop

    def alive(self) -> tuple[Identity, ...]:
        """Return what a terminate or kill has not ended yet, as far as is known: what "kill what is left" takes."""
        if self.never_sent:
            return ()
        if self.outcome.left:
            return tuple(process.identity for process in self.outcome.left)
        waits = self.plan.action == protocol.STOP or (self.plan.action == protocol.KILL and self.finished)
        if self.outcome.ok or self.outcome.refusal or not waits:
            return ()
        gone = {(t.pid, t.start_ticks) for t in self.outcome.targets if t.verified or t.state_after in ("gone", "Z")}
        return tuple(t.identity for t in self.plan.targets if (t.pid, t.start_ticks) not in gone)

    async def run(self) -> None:
        """Send the plan once and follow it to its end; every failure becomes a sentence in :attr:`trouble`."""
        self._started = self._clock()
        try:
            outcome = await actions.carry_out(self._link, self.plan, self._progress, action_id=self.action_id)
        except ActionRefused as error:
            self._not_sent(f"Refused: {printable(str(error))}")
        except RequestError as error:
            if error.kind == protocol.INTERNAL:
                await self._recover(f"the host could not finish this ({printable(str(error))})")
            else:
                self._not_sent(f"The host refused the request: {printable(str(error))}")
        except LinkError:
            await self._recover("link lost")
        except Exception as error:  # whatever else breaks here, signals may have been sent: the operator must be told
            await self._recover(f"the host's answer cannot be understood ({printable(repr(error))})")
        else:
            self._end(outcome)

    async def ask_again(self) -> None:
        """Read the host's audit file once more after it had no result; sends no signal."""
        if self.finished and self.outcome.phase == "unknown":
            self.finished, self._ended = False, None
            await self._recover("no result yet")

    async def _recover(self, cause: str) -> None:
        short = self.action_id[:4] + "…"
        self._say(f"{cause}; asking the host's audit file what became of action {short} when the link is back.")
        while True:
            try:
                await self._link.wait_up(WAIT_UP_S)
                self._say(f"{cause}; the link is back: reading the host's audit file for action {short}")
                found = await actions.fate_of(self._link, self.action_id)
            except LinkError as error:
                reason = printable(str(error)).rstrip(".")
                self._say(
                    f"{cause}; not back yet ({reason}). The host's audit file will tell what became of action {short}"
                )
                await asyncio.sleep(self._retry_s)
                continue
            except Exception as error:
                self._unknown(f"The host cannot tell what became of action {short}: {printable(str(error))}")
                return
            break
        if found is None:
            self._not_sent("The request never reached the host: nothing was sent.")
        elif found.done or found.phase in ("done", "refused"):
            self._end(replace(found, done=True))
        else:
            self._unknown("")

    def _progress(self, outcome: Outcome) -> None:
        if not self.finished:
            self.outcome = outcome
            self._changed()

    def _say(self, sentence: str) -> None:
        self.trouble = sentence[:1].upper() + sentence[1:]
        self._changed()

    def _end(self, outcome: Outcome) -> None:
        self.outcome, self.trouble = outcome, ""
        self._finish()

    def _not_sent(self, sentence: str) -> None:
        self.never_sent, self.trouble = True, sentence
        self._finish()

    def _unknown(self, sentence: str) -> None:
        # What the host had reported before the link broke stays visible: it is known, only the end is not.
        self.outcome = replace(self.outcome, phase="unknown", ok=False, done=True, left=())
        self.trouble = sentence
        self._finish()

    def _finish(self) -> None:
        self.finished, self._ended = True, self._clock()
        self._changed()

    def _changed(self) -> None:
        for callback in tuple(self._watchers):
            callback()

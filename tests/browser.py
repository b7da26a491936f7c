"""A real headless Chromium, driven through its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

VIEWS = (  # of the slow tests that ask axe-core
    pytest.param(1400, False, id="wide and light"),
    pytest.param(420, True, id="narrow and dark"),
)


class Page:
    """One tab. Events that arrive while an answer is awaited are kept in `events`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._ids = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call the protocol and return its answer."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return dict(answer["result"])

    def open(self, path: Path, *, query: str = "", width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file, with the part of its address after "?", and wait until it is loaded and drawn."""
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri() + query)
        self._wait_for_load()

    def follow(self, element: str) -> None:
        """Click on an element that leads to another page, given by a JavaScript expression, and wait as `open` does."""
        self.events.clear()
        # Later, as the page that answers a call must still be there.
        self.evaluate(f"void setTimeout(() => {element}.click(), 50)")
        self._wait_for_load()

    def _wait_for_load(self) -> None:
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.settle()

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def wait_for(self, condition: str, seconds: float = 20) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"still false after {seconds} s: {condition}"
            time.sleep(0.1)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; raises AssertionError where it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, given by its DOM name."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def pdf(self, path: Path) -> None:
        """The page as it is printed."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def problems(self) -> list[str]:
        """Exceptions and error messages since the page was opened."""
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        ]

    def inaccessible(self) -> list[str]:
        """What axe-core calls serious or critical in the page: impact, rule and the first element."""
        axe = find_spec("axe_core_python")
        assert axe and axe.submodule_search_locations, "needs axe-core-python"
        script = Path(axe.submodule_search_locations[0]) / "axe.min.js"
        self.evaluate(f"{script.read_text(encoding='utf-8')}; true")
        violations = self.evaluate("axe.run().then((found) => found.violations)")
        return [
            f"{each['impact']}: {each['id']}: {each['nodes'][0]['html']}"
            for each in violations
            if each["impact"] in ("serious", "critical")
        ]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._from, 1 << 20)
            assert piece, "the browser is gone"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A browser with one tab; it ends with the block."""
    assert CHROMIUM
    child_in, to_browser = os.pipe()
    from_browser, child_out = os.pipe()
    words = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{child_in} 4>&{child_out}', "bash", *words],
        pass_fds=(child_in, child_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(child_in)
    os.close(child_out)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.close(to_browser)  # the browser ends when its pipe does
        os.close(from_browser)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

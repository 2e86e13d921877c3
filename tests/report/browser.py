"""A real browser, spoken to over its debugging pipe: no driver, no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

#: Names under which Chromium is installed.
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page; commands of the DevTools protocol by name."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on descriptor 4.
        shell = f'exec "$@" 3<&{read_end} 4>&{write_end}'
        command = [str(PROGRAM), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_end)
        os.close(write_end)
        self._buffer, self._count, self._session = b"", 0, None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **parameters: object) -> dict:
        """Send one command and return its result."""
        self._count += 1
        message: dict = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, timeout: float = 60.0) -> dict:
        end = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser does not answer")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def media(self, *, dark: bool = False, medium: str = "") -> None:
        """Light or dark; a medium other than the real one on request."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=medium, features=[feature])

    def open(self, file: Path, ready: str = "document.documentElement?.dataset.ready") -> None:
        """Load a file and wait until an expression holds."""
        self.call("Page.navigate", url=file.resolve().as_uri())
        for _ in range(300):
            if self.run(f"Boolean({ready})"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{file.name} never became ready: {self.complaints()}")

    def run(self, expression: str) -> object:
        """Value of an expression; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions, so far."""
        self.run("0")  # events that were sent before are read with the answer
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded":
                found.append(str(parameters["entry"]["text"]))
            elif event.get("method") == "Runtime.consoleAPICalled":
                found.append(f"{parameters['type']}: {parameters['args']}")
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for, its own file and inline data aside."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [parameters["request"]["url"] for parameters in sent]
        return [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]

    def screenshot(self, file: Path, *, whole: bool = True) -> Path:
        """Write a picture of the page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def pdf(self, file: Path) -> Path:
        """Print the page."""
        printed = self.call("Page.printToPDF", printBackground=True)
        file.write_bytes(base64.b64decode(printed["data"]))
        return file

    def close(self) -> None:
        """End the browser."""
        try:
            self._session = None
            os.write(self._write, b'{"id": 0, "method": "Browser.close"}\0')
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for end in (self._read, self._write):
            os.close(end)

"""`rationales serve`: its mistakes, and its end with Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys

import pytest
from commands import error, run

pytest.importorskip("gradio", reason="the web page needs the extra serve")


@pytest.mark.parametrize("auth", ["anna", "anna:", ":secret", ""])
def test_a_password_without_a_user_is_refused(auth):
    result = run("serve", "--auth", auth, "--port", 0)
    assert result.exit_code == 2
    assert "USER:PASSWORD" in error(result)


def test_a_port_in_use_is_reported():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = run("serve", "--port", port)
    assert result.exit_code == 2
    assert f"cannot listen at 127.0.0.1:{port}" in error(result)


def test_it_prints_its_address_and_ends_with_ctrl_c():
    import httpx

    command = [sys.executable, "-m", "rationales", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline()).group()
            with httpx.Client(transport=httpx.HTTPTransport(retries=20), trust_env=False, timeout=60) as client:
                assert "rationales" in client.get(address).text
            process.send_signal(signal.SIGINT)
            log = process.stderr.read()
            assert process.wait(30) in (0, 130)
            assert "Traceback" not in log
        finally:
            process.kill()


def test_gradio_is_imported_without_rewriting_its_stubs():
    script = """
import ast, inspect, sys
from rationales.cli.streams import import_gradio
find_file, searched = inspect.getfile, []
ast.get_source_segment = lambda *_: searched.append(1)
import_gradio()
assert inspect.getfile is find_file
assert sys.modules["gradio"].Textbox is not None
assert searched == []
"""
    subprocess.run([sys.executable, "-c", script], check=True)

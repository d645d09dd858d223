"""A child of a fork waits for nothing that only its parent's threads could give back."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")

PROGRAM = """
import asyncio, os, signal, sys, threading
from adelta._locks import ForkSafeLock

held, free = threading.Event(), threading.Event()

def in_child(work):
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        os._exit(not work())
    return os.waitpid(child, 0)[1] == 0
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + program, *arguments],
        env={k: v for k, v in os.environ.items() if not k.startswith("AWS_")} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_lock_that_a_thread_held_at_the_fork_is_open_in_the_child() -> None:
    program = """
lock = ForkSafeLock()

def hold():
    with lock:
        held.set()
        free.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()

def child():
    with lock:
        return True

print(in_child(child))
free.set()
thread.join()
"""
    assert run(program) == "True\n"


def test_credentials_that_are_being_asked_for_at_the_fork_are_asked_for_by_the_child() -> None:
    program = textwrap.dedent("""
        import json
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        from adelta.storage.credentials import AccessProvider
        from adelta.storage.s3_options import parse_options

        class Credentials(BaseHTTPRequestHandler):
            def do_GET(self):
                if not held.is_set():
                    held.set()
                    free.wait()
                keys = {"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "t"}
                body = json.dumps({**keys, "Expiration": "2099-01-01T00:00Z"}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_):  # who asked first may have lost patience meanwhile
                pass

        server = Quiet(("127.0.0.1", 0), Credentials)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/role"
        os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url
        provider = AccessProvider(parse_options({"aws_region": "us-east-1"}))

        def keys():
            return asyncio.run(provider.current()).credentials.access_key_id

        thread = threading.Thread(target=keys)
        thread.start()
        held.wait()
        print(in_child(lambda: keys() == "a"))
        free.set()
        thread.join()
    """)
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    assert run(program, NO_PROXY="127.0.0.1", **nowhere) == "True\n"

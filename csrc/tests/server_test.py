#!/usr/bin/env python3
"""Starts plumb-server on an F32 copy of the small real model and asks it what it should and should not do.

Run by `make test-server`. What a steered text must be is what `plumb generate` says. F32, since the texts of a quantised
model depend a little on how many rows are computed together.
"""

import concurrent.futures
import http.client
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUMB, SERVER = ROOT / "bin/plumb", ROOT / "bin/plumb-server"
PROMPT = "The nurse said that the doctor"
N_TOKENS = 12
# None: the model as it is
LOW, HIGH = 1.2, 2.0
STRENGTHS = [None, LOW, HIGH]


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def f32_model():
    quantised = run(ROOT / "third_party/fetch.py", "model", "smollm2").strip()
    model = Path(quantised.replace(".gguf", ".F32.gguf"))
    if not model.exists():
        temporary = model.with_suffix(f".{os.getpid()}")
        run(ROOT / "build/release/csrc/tests/write_f32_model", quantised, temporary)
        temporary.rename(model)
    return model


class Server:
    """A running plumb-server, its control address, and the log of both."""

    def __init__(self, folder, *flags, token=None, controlled=True):
        self.port, self.control_port = free_port(), free_port()
        self.log = Path(folder) / f"server-{self.port}.log"
        environment = {k: v for k, v in os.environ.items() if k != "PLUMB_STEER_TOKEN"}
        if token:
            environment["PLUMB_STEER_TOKEN"] = token
        own = ["--steer-address", str(self.control_port)] if controlled else []
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([SERVER, "--port", str(self.port), *own, *map(str, flags)], stdout=log, stderr=log,
                                            env=environment)
        for _ in range(1200):
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.log.read_text()[-2000:]}")
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.25)
        raise AssertionError("the server does not get ready")

    def ask(self, method, path, body=None, headers=None, port=None):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=300)
        try:
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def control(self, method, path="/steering", body=None, **headers):
        return self.ask(method, path, body, headers, self.control_port)

    def complete(self, prompt=PROMPT, **fields):
        status, answer = self.ask("POST", "/completion", {"prompt": prompt, "n_predict": N_TOKENS, "temperature": 0, "seed": 1, **fields})
        if status != 200:
            raise AssertionError(answer)
        return answer

    def stream(self, prompt=PROMPT, **fields):
        """The text of a stream and its last event."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request("POST", "/completion", json.dumps({"prompt": prompt, "n_predict": N_TOKENS, "temperature": 0, "seed": 1,
                                                              "stream": True, **fields}), {"Content-Type": "application/json"})
        text, last = "", None
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                last = json.loads(line[6:])
                text += last["content"]
        connection.close()
        return text, last

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def asked(strength, name="contrast"):
    return [] if strength is None else [{"name": name, "strength": strength}]


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.model = f32_model()
        run(PLUMB, "steer", "fit", "--model", "smollm2", "--threads", "1", "--method", "contrast", "--layer", "15", "--sample", "24",
            "--pooled", "--strength", str(LOW), "--out", cls.folder / "fit")
        cls.file = next((cls.folder / "fit").rglob("contrast.gguf"))
        cls.flags = ["--model", cls.model, "--ctx-size", "1024", "--threads", "1", "--flash-attn", "off", "--cache-type-k", "f32",
                     "--cache-type-v", "f32"]
        cls.texts = {s: cls.generate(PROMPT, s) for s in STRENGTHS}
        cls.server = Server(cls.folder, *cls.flags, "--parallel", 8, "--kv-unified", "--metrics", "--slot-save-path", cls.folder,
                            "--steer", cls.file, "--steer-folder", cls.file.parent)
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def generate(cls, prompt, strength):
        steer = [] if strength is None else ["--steer", cls.file, "--alpha", str(strength)]
        out = json.loads(run(PLUMB, "generate", "--model", cls.model, "--threads", "1", *steer, "--chat", "off", "--temperature", "0",
                             "--tokens", str(N_TOKENS), "--seed", "1", "--json", "--prompt", prompt))
        return out["unsteered" if strength is None else "steered"]

    def setUp(self):
        self.control("PATCH", "/steering/contrast", {"strength": LOW, "enabled": True})

    def control(self, *arguments, **headers):
        status, answer = self.server.control(*arguments, **headers)
        self.assertEqual(200, status, answer)
        return answer["steering"]

    def refused(self, status, reason, answer):
        self.assertEqual(status, answer[0], answer)
        self.assertIn(reason, json.dumps(answer[1]))
        self.assertEqual(200, self.server.ask("GET", "/health")[0])

    def test_the_texts_are_those_of_plumb_generate(self):
        self.assertEqual(len(STRENGTHS), len(set(self.texts.values())), self.texts)
        self.assertEqual(self.texts[LOW], self.server.complete()["content"], "as started")
        for strength in STRENGTHS:
            answer = self.server.complete(steering=asked(strength))
            self.assertEqual(self.texts[strength], answer["content"], strength)
            self.assertEqual(asked(strength), answer["generation_settings"]["steering"])
        status, answer = self.server.ask("POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": N_TOKENS, "temperature": 0,
                                                                    "seed": 1, "steering": asked(HIGH)})
        self.assertEqual((200, self.texts[HIGH]), (status, answer["choices"][0]["text"]))

    def test_a_change_serves_what_comes_after_it(self):
        self.control("PATCH", "/steering/contrast", {"strength": HIGH})
        self.assertEqual(self.texts[HIGH], self.server.complete()["content"])
        self.assertEqual([{"name": "contrast", "strength": HIGH}], self.server.ask("GET", "/health")[1]["steering"])
        self.assertIn('plumb:steering_strength{name="contrast"} 2\n', self.server.ask("GET", "/metrics")[1])
        self.control("PATCH", "/steering/contrast", {"enabled": False})
        self.assertEqual(self.texts[None], self.server.complete()["content"])
        self.assertEqual([], self.server.ask("GET", "/health")[1]["steering"])
        self.assertNotIn("steering_strength{", self.server.ask("GET", "/metrics")[1])
        self.control("POST", "/steering", {"file": self.file.name, "name": "again", "strength": HIGH})
        self.assertEqual(self.texts[HIGH], self.server.complete()["content"])
        self.assertEqual(["contrast"], [s["name"] for s in self.control("DELETE", "/steering/again")])
        self.assertEqual(self.texts[None], self.server.complete()["content"])

    def test_states_serve_their_own_plan_alone(self):
        prompt = "In another town, far from every hospital, there"
        for again in range(2):
            for strength in STRENGTHS:
                answer = self.server.complete(prompt, steering=asked(strength), n_predict=4)
                self.assertEqual(again > 0, answer["timings"]["cache_n"] > 0, (again, strength))

    def test_changing_the_strength_while_eight_stream(self):
        """A request keeps the plan it arrived under: every stream is one of the two texts, and says which."""
        done, stop = [], threading.Event()

        def client():
            while not stop.is_set():
                done.append(self.server.stream())

        before = self.server.ask("GET", "/metrics")[1]
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            running = [clients.submit(client) for _ in range(8)]
            for i in range(12):
                time.sleep(1.5)
                self.control("PATCH", "/steering/contrast", {"strength": HIGH if i % 2 == 0 else LOW})
            stop.set()
            for future in running:
                future.result()
        seen = {LOW: 0, HIGH: 0}
        for text, last in done:
            self.assertTrue(last["stop"])
            self.assertEqual(N_TOKENS, last["tokens_predicted"])
            (steering,) = last["generation_settings"]["steering"]
            self.assertEqual(self.texts[steering["strength"]], text)
            seen[steering["strength"]] += 1
        print(f"{len(done)} streams of 8 clients, {seen} by strength", file=sys.stderr)
        self.assertGreaterEqual(min(seen.values()), 4, seen)
        self.assertGreater(self.rows_together(before), 1.5)

    def test_the_prompts_of_a_request_have_one_plan(self):
        done = threading.Event()

        def change():
            while not done.is_set():
                for strength in (HIGH, LOW):
                    self.control("PATCH", "/steering/contrast", {"strength": strength})

        # so many biases that reading them for every prompt takes longer than a change
        biases = [[token, 0] for token in range(10000)]
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            changing = other.submit(change)
            try:
                status, answers = self.server.ask("POST", "/completion", {"prompt": ["A"] * 32, "n_predict": 1, "logit_bias": biases})
            finally:
                done.set()
            changing.result()
        self.assertEqual(200, status, answers)
        self.assertEqual(1, len({json.dumps(a["generation_settings"]["steering"]) for a in answers}))

    def rows_together(self, before):
        """Mean number of requests in a decode since `before`."""
        def counters(text):
            values = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
            n = float(values["llamacpp:n_decode_total"])
            return n, n * float(values["llamacpp:n_busy_slots_per_decode"])
        (n, busy), (n2, busy2) = counters(before), counters(self.server.ask("GET", "/metrics")[1])
        return (busy2 - busy) / (n2 - n)

    def test_requests_of_one_batch_are_steered_differently(self):
        before = self.server.ask("GET", "/metrics")[1]
        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            running = [(s, clients.submit(self.server.complete, steering=asked(s))) for s in STRENGTHS * 2]
            for strength, future in running:
                self.assertEqual(self.texts[strength], future.result()["content"], strength)
        together = self.rows_together(before)
        print(f"{together:.1f} requests in a decode, of 3 plans", file=sys.stderr)
        self.assertGreater(together, 2.5)

    def test_hostile_fields_are_refused(self):
        for field, reason in (("contrast", "list of objects"), ([{"name": "nobody"}], "no steering is loaded"), ([7], "has a"),
                              ([{"name": "contrast", "strength": "8"}], "a number"), ([{"strength": 8}], "has a"),
                              ([{"name": "contrast", "strenght": 8}], "and no more"),
                              ([{"name": "contrast"}, {"name": "contrast"}], "twice"), ([{"name": "../contrast"}], "no steering"),
                              ([{"name": "contrast", "strength": 1e300}], "not a number"),
                              ([{"name": "contrast", "strength": -1e30}], "beyond what floats can bear")):
            self.refused(400, reason, self.server.ask("POST", "/completion", {"prompt": PROMPT, "n_predict": 1, "steering": field}))
        # the largest strength that is let through does not spoil what is computed beside it
        with concurrent.futures.ThreadPoolExecutor(2) as clients:
            wild = clients.submit(self.server.complete, steering=asked(1e12))
            tame = clients.submit(self.server.complete, steering=asked(HIGH))
            self.assertEqual(self.texts[HIGH], tame.result()["content"])
            self.assertEqual(N_TOKENS, wild.result()["tokens_predicted"])
        self.assertEqual(self.texts[None], self.server.complete(steering=[])["content"])

    def test_hostile_requests_at_the_control_address_are_refused(self):
        control = self.server.control
        self.refused(400, "JSON object", control("POST", body=b"{"))
        self.refused(400, "JSON object", control("POST", body=b"[" * 60000))
        self.refused(400, "unknown here", control("POST", body={"file": "contrast.gguf", "mode": 1}))
        self.refused(400, "unknown here", control("PATCH", "/steering/contrast", {"strength": "8"}))
        self.refused(400, "beyond", control("PATCH", "/steering/contrast", {"strength": 1e30}))
        self.refused(400, "letters", control("POST", body={"file": "contrast.gguf", "name": 'a"} 1\n'}))
        self.refused(400, "already", control("POST", body={"file": "contrast.gguf"}))
        self.refused(404, "no steering", control("DELETE", "/steering/nobody"))
        self.refused(404, "no such thing", control("GET", "/etc/passwd"))
        self.refused(403, "programs of this machine", control("GET", Origin="http://example.org"))
        for host in ("example.org", "127.0.0.1.example.org"):
            self.refused(403, "programs of this machine", control("GET", Host=host))
        outside = self.folder / "outside.gguf"
        shutil.copy(self.file, outside)
        link = self.file.parent / "link.gguf"
        link.symlink_to(outside)
        for path in ("../outside.gguf", str(outside), "link.gguf", ".", "", "none.gguf"):
            self.refused(404, "no such file", control("POST", body={"file": path, "name": "x"}))
        huge = self.send_raw(b"POST /steering HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n")
        self.assertIn(huge.split()[1], (b"413", b"400"))
        self.assertIn(b"not a request of HTTP", self.send_raw(b"POST /steering HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"))
        try:
            self.refused(413, "too large", control("POST", body=b" " * (1 << 20)))
        except OSError:
            pass  # closed while we were sending
        self.assertEqual(["contrast"], [s["name"] for s in self.control("GET", "/steering")])
        self.assertEqual(self.texts[LOW], self.server.complete()["content"])

    def send_raw(self, data):
        with socket.create_connection(("127.0.0.1", self.server.control_port), timeout=30) as s:
            s.sendall(data)
            return b"".join(iter(lambda: s.recv(1000), b""))

    def test_files_that_do_not_fit_are_refused(self):
        good = self.file.read_bytes()
        hidden = b"plumb.model.embedding_length" + struct.pack("<I", 4)
        at = good.index(hidden) + len(hidden)
        for name, content, reason in (
                ("narrow", (ROOT / "steer/testdata/projection.gguf").read_bytes(), "wide"),
                ("vector", (ROOT / "steer/testdata/repeng.gguf").read_bytes(), "not a steering file"),
                ("short", good[:-100], "cut short"),
                ("head", good[:200], "not a whole GGUF file"),
                ("empty", b"", "not a whole GGUF file"),
                ("wide", good[:at] + struct.pack("<I", 577) + good[at + 4:], "is not 577 floats"),
                ("nan", good[:-8] + struct.pack("<f", float("nan")) + good[-4:], "not finite")):
            (self.file.parent / f"{name}.gguf").write_bytes(content)
            self.refused(400, reason, self.server.control("POST", body={"file": f"{name}.gguf"}))

    def test_the_state_of_a_steered_slot_is_not_saved(self):
        self.server.complete(id_slot=3)
        self.refused(501, "computed under steering", self.server.ask("POST", "/slots/3?action=save", {"filename": "x"}))

    def test_a_token_is_asked_for(self):
        server = Server(self.folder, *self.flags, "--parallel", 2, "--no-kv-unified", token="a secret")
        try:
            for headers in ({}, {"Authorization": "Bearer a secre"}, {"Authorization": "Bearer a secret2"}, {"Authorization": "a secret"}):
                self.assertEqual(401, server.control("GET", **headers)[0])
                self.assertEqual(401, server.control("POST", "/steering", {"file": "x"}, **headers)[0])
            right = {"Authorization": "Bearer a secret"}
            self.assertEqual((200, {"steering": []}), server.control("GET", **right))
            self.refused(400, "without --steer-folder", server.control("POST", "/steering", {"file": str(self.file)}, **right))
            self.assertEqual(self.texts[None], server.complete()["content"])
        finally:
            self.assertEqual(0, server.stop())

    def test_a_draft_and_slots_apart_are_served_too(self):
        """Speculation with a model that is not steered; caches of their own, whose rows are not in the batch's order."""
        draft = run(ROOT / "third_party/fetch.py", "model", "smollm2").strip()
        server = Server(self.folder, *self.flags, "--parallel", 2, "--no-kv-unified", "--model-draft", draft, "--threads-draft", 1,
                        "--spec-type", "draft-simple", "--steer", f"{self.file}:{HIGH}")
        try:
            with concurrent.futures.ThreadPoolExecutor(3) as clients:
                running = [(s, clients.submit(server.complete, steering=asked(s))) for s in STRENGTHS]
                for strength, future in running:
                    answer = future.result()
                    self.assertEqual(self.texts[strength], answer["content"], strength)
                    self.assertGreater(answer["timings"].get("draft_n", 0), 0)
        finally:
            self.assertEqual(0, server.stop())

    def test_what_cannot_be_served_is_refused_at_the_start(self):
        for flags, status, reason in (
                (["--steer", self.file], 2, "a router serves many models"),
                (["--model", self.model, "--steer", f"{self.file}:much"], 2, "a strength, a number"),
                (["--model", self.model, "--steer", f"{self.file}:1e30"], 2, "beyond what floats can bear"),
                (["--model", self.model, "--steer", "nowhere.gguf"], 1, "No such file"),
                (["--model", self.model, "--steer"], 2, "needs a value"),
                (["--model", self.model, "--steer-address", "0.0.0.0:9"], 2, "PLUMB_STEER_TOKEN"),
                (["--model", self.model, "--steer-address", "127.0.0.1.example.org:9"], 2, "PLUMB_STEER_TOKEN"),
                (["--model", self.model, "--steer-address", str(self.server.control_port)], 1, "cannot listen"),
                (["--model", self.model, "--steer-address", "here"], 2, "HOST:PORT"),
                (["--model", self.model, "--steer-folder", "/"], 2, "goes with --steer-address"),
                (["--model", self.model, "--steer", ROOT / "steer/testdata/projection.gguf"], 1, "wide")):
            done = subprocess.run([SERVER, "--port", str(free_port()), *map(str, flags)], capture_output=True, text=True, timeout=120)
            self.assertEqual(status, done.returncode, (flags, done.stderr[-500:]))
            self.assertIn(reason, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()

"""The same conversation for every published Python client: a text turn, a tool
turn, two sessions at once, an error turn, a close that leaves whole logs (spec
jsonrpc 14 line 20)."""

import faulthandler
import json
import os
import tempfile
import threading
from pathlib import Path

from deepseek_harness.errors import JsonRpcError

BINARY = os.environ["DSH_BIN"]  # the dsh binary under test, an absolute path
MODEL = Path(__file__).resolve().parent.parent / "model.yaml"

# The clients wait without limit; a run that hangs says where, and ends.
faulthandler.dump_traceback_later(120, exit=True)


class Setup:
    """The folders of one test and the environment of its runtime."""

    def __init__(self) -> None:
        root = Path(tempfile.mkdtemp(prefix="dsh-client-")).resolve()
        self.root = root
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        (self.workspace / "note.txt").write_text("remember the milk\n")
        self.home = root / "home"
        self.sessions = self.home / "sessions.d"
        self.env = {"DSH_SCRIPT": str(MODEL)}
        self.route = {"provider": "scripted", "model": "scripted", "cwd": str(self.workspace)}

    def log(self, session: str) -> list[dict]:
        lines = (self.sessions / f"{session}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def kinds(result) -> list[str]:
    return [n.payload["event"]["type"] if n.method == "session.event" else n.payload.get("status", n.method)
            for n in result.notifications]


def closed(harness) -> int:
    """Closes a client and gives the exit code of its runtime, which only a private field tells."""
    process = harness.client._proc
    harness.close()
    return process.returncode


class Conversation:
    """The suite. A test case class mixes it in and gives open(setup, **extra), an unstarted client."""

    def setUp(self) -> None:
        self.setup = Setup()

    def start(self, **extra):
        harness = self.open(self.setup, **extra)
        self.addCleanup(harness.close)
        return harness

    def test_text_turn(self) -> None:
        harness = self.start()
        result = harness.run("hi there")
        self.assertEqual(result.final_response, "hello from the script")
        self.assertEqual(result.finish_reason, "completed")
        self.assertEqual(result.events[-1]["type"], "turn/end")
        self.assertEqual(closed(harness), 0)

    def test_text_that_is_not_ascii(self) -> None:
        result = self.start().run("which session, \u4f60\u597d \U0001f680 \u2028 \x7f")
        self.assertEqual(result.final_response, "you said which session, \u4f60\u597d \U0001f680 \u2028 \x7f")

    def test_lone_surrogate(self) -> None:
        # The client sends it escaped; nothing the binary says may end its reader.
        harness = self.start()
        self.assertEqual(harness.run("which session, \ud800").final_response, "you said which session, \ufffd")
        self.assertEqual(harness.run("hi").final_response, "hello from the script")

    def test_tool_turn(self) -> None:
        seen = []
        result = self.start().start_session("tools").run("please read the note", on_notification=seen.append)
        self.assertRegex(result.final_response, r"(?s)^The note says: .*remember the milk")
        self.assertEqual(seen, result.notifications)
        got = iter(kinds(result))
        for kind in ("agent/inbox/spliced", "running", "turn/start", "step/start", "user/message", "request/header",
                     "assistant/message", "tool/call", "tool/result", "step/end", "step/start", "assistant/message",
                     "step/end", "turn/end", "idle"):
            self.assertIn(kind, got, kinds(result))

    def test_two_runs_continue_one_session(self) -> None:
        session = self.start().start_session("kept")
        self.assertEqual(session.run("which session, first").final_response, "you said which session, first")
        second = session.run("which session, second")
        self.assertEqual(second.final_response, "you said which session, second")
        self.assertEqual([e["data"]["turn"] for e in second.events if e["type"] == "turn/start"], [2])

    def test_two_sessions_at_once(self) -> None:
        harness = self.start()
        harness.start()
        results = {}

        def run(name: str) -> None:
            results[name] = harness.run(f"which session, {name}", session_id=name)

        threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in "ab":
            self.assertEqual(results[name].final_response, f"you said which session, {name}")
            self.assertEqual({n.payload["sessionId"] for n in results[name].notifications}, {name})

    def test_a_failed_turn_is_told_and_the_session_goes_on(self) -> None:
        session = self.start().start_session("failing")
        failed = session.run("break")
        self.assertEqual(failed.finish_reason, "error")
        self.assertEqual(failed.final_response, "")
        self.assertIn("the provider said no", failed.events[-1]["data"]["reason"]["error"]["message"])
        self.assertEqual(session.run("hi").final_response, "hello from the script")

    def test_an_unknown_provider_fails_the_handshake(self) -> None:
        harness = self.start(provider="nobody")
        with self.assertRaises(JsonRpcError) as caught:
            harness.run("hi")
        self.assertTrue(caught.exception.message.startswith('no adapter registered for provider "nobody"'))
        self.assertIsNone(harness.client._proc, "the runtime is still there")

    def test_the_cap_is_checked(self) -> None:
        self.assertEqual(self.start(max_tokens=1).run("hi").finish_reason, "completed")
        with self.assertRaises(JsonRpcError) as caught:
            self.start(max_tokens=0).run("hi")
        self.assertTrue(caught.exception.message.startswith("initialize maxTokens must be a positive safe integer"))
        self.assertEqual(caught.exception.code, -32602)

    def test_the_stored_log_is_what_was_streamed(self) -> None:
        harness = self.start()
        result = harness.run("please read the note", session_id="logged")
        self.assertEqual(closed(harness), 0)
        header, *rows = self.setup.log("logged")
        self.assertEqual((header["type"], header["id"], header["cwd"]), ("session", "logged", str(self.setup.workspace)))
        stored = [row for row in rows if "seq" in row and row["type"] != "assistant/chunk"]
        streamed = [event for event in result.events if event["type"] != "assistant/chunk"]
        self.assertEqual(stored[:len(streamed)], streamed)

    def test_a_close_during_a_turn_loses_nothing(self) -> None:
        for attempt in range(5):
            name = f"cut-{attempt}"
            harness = self.start()
            harness.start()
            message = harness.client.session_prompt(name, [{"type": "text", "text": "take your time"}])
            if attempt % 2:  # in the middle of the answer; otherwise before it
                while harness.client.next_notification().payload.get("event", {}).get("type") != "assistant/chunk":
                    pass
            self.assertEqual(closed(harness), 0)
            rows = self.setup.log(name)
            inserted = [m["id"] for row in rows if row["type"] == "agent/inbox/spliced" for m in row["data"].get("inserted", [])]
            self.assertEqual(inserted, [message])
            if attempt % 2:
                turns = [row for row in rows if row["type"].startswith("turn/")]
                self.assertEqual([turn["type"] for turn in turns], ["turn/start", "turn/end"])
                self.assertEqual(turns[-1]["data"]["reason"]["kind"], "aborted")
            # Another process takes the session up again.
            again = self.start()
            self.assertEqual(again.run("which session, again", session_id=name).final_response, "you said which session, again")
            self.assertEqual(closed(again), 0)

    def test_a_new_process_continues_a_session(self) -> None:
        first = self.start()
        first.run("which session, one", session_id="kept")
        self.assertEqual(closed(first), 0)
        second = self.start()
        result = second.run("which session, two", session_id="kept")
        self.assertEqual(result.final_response, "you said which session, two")
        self.assertEqual(closed(second), 0)
        self.assertEqual([row["data"]["turn"] for row in self.setup.log("kept") if row["type"] == "turn/start"], [1, 2])

    def test_closing_twice_and_starting_again(self) -> None:
        harness = self.start()
        self.assertEqual(harness.run("hi").final_response, "hello from the script")
        self.assertEqual(closed(harness), 0)
        harness.close()
        self.assertEqual(harness.run("hi").final_response, "hello from the script")
        self.assertEqual(closed(harness), 0)

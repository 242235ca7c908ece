"""The newest published Python client, unchanged (spec jsonrpc 12.4)."""

import unittest
from dataclasses import fields

from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig
from deepseek_harness.errors import JsonRpcError, TransportClosedError
from suite import BINARY, Conversation, closed


class Newer(Conversation, unittest.TestCase):
    def open(self, setup, **extra):
        options = {"dsh_bin": BINARY, "dsh_home": str(setup.home), "env": setup.env, **setup.route, **extra}
        return DeepSeekHarness(**options)

    def test_it_is_the_newer_client(self) -> None:
        names = {field.name for field in fields(DeepSeekHarnessConfig)}
        self.assertIn("dsh_bin", names)
        self.assertNotIn("runtime_bin", names)

    def test_patches_reach_the_profile(self) -> None:
        patch = self.setup.root / "patch.yaml"
        patch.write_text("plugins: {fs: {enabled: false}}\n")
        result = self.start(patches=(str(patch),)).run("please read the note")
        outcomes = [event for event in result.events if event["type"] == "tool/result"]
        self.assertEqual(len(outcomes), 1)
        self.assertIn("UNKNOWN_TOOL", str(outcomes[0]))

    def test_a_profile_that_does_not_exist(self) -> None:
        with self.assertRaisesRegex(TransportClosedError, 'there is no profile "nowhere"'):
            self.start(profile="nowhere").run("hi")

    def test_an_unknown_method_is_refused_at_once(self) -> None:
        session = self.start().start_session("here")
        session.run("hi")
        with self.assertRaisesRegex(JsonRpcError, "session/working-directory/get") as caught:
            session.get_working_directory()
        self.assertEqual(caught.exception.code, -32601)

    def test_resume_session(self) -> None:
        first = self.start()
        first.run("which session, one", session_id="kept")
        self.assertEqual(closed(first), 0)
        second = self.start()
        session = second.resume_session("kept")
        result = session.run("which session, two")
        self.assertEqual(result.final_response, "you said which session, two")
        self.assertEqual([e["data"]["turn"] for e in result.events if e["type"] == "turn/start"], [2])
        with self.assertRaises(JsonRpcError):
            second.resume_session("never-seen")
        self.assertEqual(closed(second), 0)
        self.assertEqual([path.name for path in self.setup.sessions.glob("*.jsonl")], ["kept.jsonl"])


if __name__ == "__main__":
    unittest.main()

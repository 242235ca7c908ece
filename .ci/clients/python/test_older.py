"""The last Python client of the older kind, unchanged (spec jsonrpc 12.3)."""

import unittest
from dataclasses import fields

from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig
from suite import BINARY, Conversation, closed


class Older(Conversation, unittest.TestCase):
    """runtime_bin: the path of the binary is the whole command line."""

    def open(self, setup, **extra):
        options = {"runtime_bin": BINARY, "env": {"DSH_HOME": str(setup.home), **setup.env}, **setup.route, **extra}
        return DeepSeekHarness(**options)

    def test_it_is_the_older_client(self) -> None:
        names = {field.name for field in fields(DeepSeekHarnessConfig)}
        self.assertIn("runtime_bin", names)
        self.assertNotIn("dsh_bin", names)

    def test_launch_args_override(self) -> None:
        harness = self.start(runtime_bin=None, launch_args_override=(BINARY, "--profile", "sdk"))
        self.assertEqual(harness.run("hi").final_response, "hello from the script")
        self.assertEqual(closed(harness), 0)

    def test_session_root(self) -> None:
        root = self.setup.root / "elsewhere"
        harness = self.start(session_root=str(root))
        result = harness.run("hi", session_id="moved")
        self.assertEqual(result.session_root, str(root))
        self.assertEqual(closed(harness), 0)
        self.assertEqual([path.name for path in root.glob("*.jsonl")], ["moved.jsonl"])
        self.assertFalse(list(self.setup.home.rglob("moved*")), "the session is in the home too")

    def test_a_composition_file_is_ignored_and_said_so(self) -> None:
        harness = self.start(cordis=str(self.setup.root / "cordis.yml"))
        self.assertEqual(harness.run("hi").final_response, "hello from the script")
        client = harness.client
        self.assertEqual(closed(harness), 0)
        self.assertIn("DSH_CORDIS_CONFIG is ignored", "\n".join(client._stderr_lines))

    def test_the_agent_works_in_cwd_and_not_in_runtime_cwd(self) -> None:
        other = self.setup.root / "other"
        other.mkdir()
        result = self.start(runtime_cwd=str(other)).run("please read the note")
        self.assertIn("remember the milk", result.final_response)


if __name__ == "__main__":
    unittest.main()

"""Programs that use the session functions of claude-agent-sdk on what dcl has
written: the functions read, change, copy and delete files, dcl reads them again."""

import json
import os
import unittest
from unittest import mock

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeSDKClient,
    InMemorySessionStore,
    UserMessage,
    delete_session,
    fork_session,
    get_session_info,
    get_session_messages,
    get_session_messages_from_store,
    get_subagent_messages,
    list_sessions,
    list_sessions_from_store,
    list_subagents,
    project_key_for_directory,
    rename_session,
    tag_session,
)

import test_agent_sdk as programs
from provider import Provider

GREETER = AgentDefinition(description="Greets", prompt="You greet.")


def texts(request: dict) -> list[str]:
    """What a model request says, in order."""
    found = []
    for message in request["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                found.append(block["text"])
    return found


class Sessions(unittest.IsolatedAsyncioTestCase):
    # A program is run as in the other module, whose own programs do not run here.
    model, options, model_env = "claude-sonnet-4-5", programs.Anthropic.options, programs.Anthropic.model_env
    ask, turn, result = programs.Anthropic.ask, programs.Anthropic.turn, programs.Anthropic.result

    def setUp(self) -> None:
        programs.Anthropic.__base__.setUp(self)
        self.provider = Provider()
        self.provider.cwd = str(self.workspace)
        self.addCleanup(self.provider.close)
        # The functions look where the program does.
        here = mock.patch.dict(os.environ, {"CLAUDE_CONFIG_DIR": str(self.root / "config")})
        here.start()
        self.addCleanup(here.stop)

    @property
    def directory(self) -> str:
        return str(self.workspace)

    async def begin(self, **more) -> tuple[str, list]:
        """A session of two turns, the second with a call."""
        async with ClaudeSDKClient(self.options(allowed_tools=["Bash"], **more)) as client:
            seen = await self.turn(client, "say hello") + await self.turn(client, "echo something")
        return seen[-1].session_id, seen

    def last_said(self) -> list[str]:
        return texts(self.provider.requests[-1])

    def says(self, *wanted: str) -> None:
        """The last request has all of these, in order."""
        rest = self.last_said()
        for want in wanted:
            at = next((i for i, t in enumerate(rest) if want in t), None)
            self.assertIsNotNone(at, f"no {want!r} in {rest}")
            rest = rest[at + 1 :]

    def says_not(self, text: str) -> None:
        self.assertFalse([t for t in self.last_said() if text in t])

    # --- programs ---

    async def test_list_and_read(self) -> None:
        session, seen = await self.begin()
        (info,) = list_sessions(self.directory)
        self.assertEqual((session, "say hello", "echo something"), (info.session_id, info.first_prompt, info.summary))
        self.assertEqual(self.directory, info.cwd)
        self.assertIsNotNone(info.created_at)
        self.assertEqual(info, get_session_info(session, self.directory))
        messages = get_session_messages(session, self.directory)
        self.assertEqual(
            ["user", "assistant", "user", "assistant", "user", "assistant"], [m.type for m in messages])
        self.assertEqual(["say hello", "echo something"], [m.message["content"] for m in messages if isinstance(m.message["content"], str)])
        # What the client has seen has the uuids that it has seen.
        stream = [m.uuid for m in seen if isinstance(m, AssistantMessage | UserMessage) and m.uuid]
        self.assertEqual(stream, [m.uuid for m in messages if not isinstance(m.message["content"], str)])
        self.assertEqual(messages[1:3], get_session_messages(session, self.directory, limit=2, offset=1))
        self.assertEqual([], self.stderr)

    async def test_rename_and_tag(self) -> None:
        session, _ = await self.begin()
        rename_session(session, "my work", self.directory)
        tag_session(session, "kept", self.directory)
        info = get_session_info(session, self.directory)
        self.assertEqual(("my work", "my work", "kept"), (info.summary, info.custom_title, info.tag))
        # They stay when the session goes on.
        self.result(await self.ask("say hello", resume=session))
        info = get_session_info(session, self.directory)
        self.assertEqual(("my work", "kept"), (info.custom_title, info.tag))
        self.assertEqual(8, len(get_session_messages(session, self.directory)))

    async def test_delete(self) -> None:
        session, _ = await self.begin()
        delete_session(session, self.directory)
        self.assertEqual([], list_sessions(self.directory))
        # The log is still there, and the id is enough.
        self.assertEqual(session, self.result(await self.ask("say hello", resume=session)).session_id)
        self.says("echo something", "say hello")
        self.assertEqual(8, len(get_session_messages(session, self.directory)))

    async def test_fork_by_function(self) -> None:
        session, _ = await self.begin()
        messages = get_session_messages(session, self.directory)
        forked = fork_session(session, self.directory, up_to_message_id=messages[1].uuid, title="a copy").session_id
        self.assertEqual(forked, self.result(await self.ask("echo something", resume=forked, allowed_tools=["Bash"])).session_id)
        self.says("say hello", "Hello from the model.", "echo something")
        read = get_session_messages(forked, self.directory)
        self.assertEqual(["say hello", "echo something"], [m.message["content"] for m in read if isinstance(m.message["content"], str)])
        self.assertEqual("a copy", get_session_info(forked, self.directory).custom_title)
        self.assertEqual(messages, get_session_messages(session, self.directory))
        # A copy is the newest session of the folder.
        again = fork_session(session, self.directory).session_id
        self.assertEqual(again, self.result(await self.ask("say hello", continue_conversation=True)).session_id)
        self.says("say hello", "echo something", "Tool said", "say hello")

    async def test_resume_and_fork(self) -> None:
        session, _ = await self.begin()
        self.assertEqual(session, self.result(await self.ask("say hello", resume=session)).session_id)
        self.says("say hello", "echo something", "say hello")
        before = get_session_messages(session, self.directory)
        forked = self.result(await self.ask("say hello", resume=session, fork_session=True)).session_id
        self.assertNotEqual(session, forked)
        self.says("say hello", "echo something", "say hello", "say hello")
        self.assertEqual(before, get_session_messages(session, self.directory))
        self.assertEqual(len(before) + 2, len(get_session_messages(forked, self.directory)))

    async def test_truncating_resume(self) -> None:
        session, _ = await self.begin()
        messages = get_session_messages(session, self.directory)
        keep, dropped = messages[1].uuid, messages[2].uuid
        result = self.result(await self.ask("say hello", resume=session, resume_session_at=keep, resume_drops_turn=dropped))
        self.assertEqual(session, result.session_id)
        self.says_not("echo something")
        self.assertEqual(
            ["say hello", "say hello"],
            [m.message["content"] for m in get_session_messages(session, self.directory) if m.type == "user"])
        # What goes now is another turn.
        with self.assertRaisesRegex(Exception, "Resume rejected by --resume-drops-turn:"):
            await self.ask("say hello", resume=session, resume_session_at=keep, resume_drops_turn=dropped)
        with self.assertRaises(Exception) as raised:
            await self.ask("say hello", resume=session, resume_session_at="00000000-0000-4000-8000-000000000000")
        self.assertIn("00000000-0000-4000-8000-000000000000", str(raised.exception))

    async def test_resume_of_none(self) -> None:
        with self.assertRaisesRegex(Exception, "No conversation found with session ID"):
            await self.ask("say hello", resume="00000000-0000-4000-8000-000000000000")

    async def test_subagents(self) -> None:
        messages = await self.ask("delegate it", agents={"greeter": GREETER})
        session = self.result(messages).session_id
        (agent,) = list_subagents(session, self.directory)
        read = get_subagent_messages(session, agent, self.directory)
        self.assertIn("assistant", [m.type for m in read])
        call = next(b for b in programs.blocks(messages, programs.ToolUseBlock) if b.name == "Agent")
        self.assertEqual({call.id}, {m.parent_tool_use_id for m in read})

    async def test_store(self) -> None:
        store = InMemorySessionStore()
        session, _ = await self.begin(session_store=store)
        key = {"project_key": project_key_for_directory(self.workspace), "session_id": session}
        # The store has what the file has, line for line.
        (path,) = (self.root / "config" / "projects").glob("*/*.jsonl")
        self.assertEqual([json.loads(line) for line in path.read_text().splitlines()], await store.load(key))
        (info,) = await list_sessions_from_store(store, self.directory)
        self.assertEqual((session, "echo something"), (info.session_id, info.summary))
        # Another machine: neither the file nor the log is there, only the store.
        path.unlink()
        elsewhere = {"env": {"DSH_HOME": str(self.root / "elsewhere")}}
        result = self.result(await self.ask("say hello", resume=session, session_store=store, **elsewhere))
        self.assertEqual(session, result.session_id)
        self.says("say hello", "echo something", "Tool said", "say hello")
        read = await get_session_messages_from_store(store, session, self.directory)
        self.assertEqual(8, len(read))
        # And back, where the log is behind the store.
        self.result(await self.ask("say hello", continue_conversation=True, session_store=store))
        self.says("say hello", "echo something", "Tool said", "say hello", "say hello")
        self.assertEqual(10, len(await get_session_messages_from_store(store, session, self.directory)))
        entries = await store.load(key)
        places = [(e["uuid"], e["parentUuid"]) for e in entries if "uuid" in e]
        self.assertEqual(len(set(places)), len(places), "an entry is in the store twice")

    async def test_title(self) -> None:
        session, _ = await self.begin(extra_args={"name": "by flag"})
        self.assertEqual("by flag", get_session_info(session, self.directory).custom_title)

    async def test_not_kept(self) -> None:
        self.result(await self.ask("say hello", extra_args={"no-session-persistence": None}))
        self.assertEqual([], list_sessions(self.directory))


if __name__ == "__main__":
    unittest.main()

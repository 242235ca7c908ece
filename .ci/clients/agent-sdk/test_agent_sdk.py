"""Programs as users of claude-agent-sdk write them, against dcl: only cli_path is
theirs to change (S004). Each runs with the scripted model inside dcl and,
through the Anthropic adapter, with a provider on loopback."""

import asyncio
import faulthandler
import json
import os
import tempfile
import unittest
from pathlib import Path

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ConversationResetMessage,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from claude_agent_sdk.types import PermissionRuleValue

from plan import PLAN
from provider import Provider, fill

BINARY = os.environ["DCL_BIN"]  # the dcl binary under test, an absolute path

# A run that hangs says where, and ends.
faulthandler.dump_traceback_later(300, exit=True)


def blocks(messages: list, kind: type) -> list:
    found = []
    for message in messages:
        if isinstance(message, AssistantMessage | UserMessage) and isinstance(message.content, list):
            found += [b for b in message.content if isinstance(b, kind)]
    return found


def said(messages: list) -> str:
    return "".join(b.text for b in blocks(messages, TextBlock))


class Suite(unittest.IsolatedAsyncioTestCase):
    """The programs; a subclass says which model answers."""

    def setUp(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="dcl-sdk-")).resolve()
        self.workspace = self.root / "workspace"
        self.workspace.mkdir()
        self.stderr: list[str] = []

    def options(self, **more) -> ClaudeAgentOptions:
        env = {
            "DSH_HOME": str(self.root / "home"),
            "CLAUDE_CONFIG_DIR": str(self.root / "config"),
            "HOME": str(self.root),
        } | self.model_env() | more.pop("env", {})
        defaults = {
            "cli_path": BINARY, "cwd": self.workspace, "env": env, "model": self.model,
            "stderr": self.stderr.append, "setting_sources": [],
        }
        return ClaudeAgentOptions(**(defaults | more))

    async def ask(self, prompt: str, **more) -> list:
        """The whole of one query(), within a limit."""
        async with asyncio.timeout(60):
            return [m async for m in query(prompt=prompt, options=self.options(**more))]

    def result(self, messages: list) -> ResultMessage:
        results = [m for m in messages if isinstance(m, ResultMessage)]
        self.assertEqual(1, len(results), messages)
        self.assertIs(results[0], messages[-1])
        return results[0]

    async def turn(self, client: ClaudeSDKClient, prompt: str) -> list:
        async with asyncio.timeout(60):
            await client.query(prompt)
            return [m async for m in client.receive_response()]

    # --- programs ---

    async def test_quick_start(self) -> None:
        messages = await self.ask("please say hello")
        self.assertEqual("Hello from the model.", said(messages).strip())
        result = self.result(messages)
        self.assertEqual(("success", False, 1), (result.subtype, result.is_error, result.num_turns))
        self.assertEqual("Hello from the model.", result.result.strip())
        first = next(m for m in messages if isinstance(m, SystemMessage))
        self.assertEqual("init", first.subtype)
        for name in ("Read", "Write", "Edit", "Glob", "Grep", "Bash", "TodoWrite", "Skill", "NotebookEdit", "LSP"):
            self.assertIn(name, first.data["tools"])
        self.assertEqual(str(self.workspace), first.data["cwd"])
        self.assertEqual(self.model, first.data["model"])
        # A clean run leaves stderr empty.
        self.assertEqual([], self.stderr)

    async def test_thinking(self) -> None:
        messages = await self.ask("think first")
        thoughts = blocks(messages, ThinkingBlock)
        self.assertEqual(["Let me see."], [t.thinking.strip() for t in thoughts])
        self.assertEqual(self.signature, thoughts[0].signature)

    async def test_streaming_client(self) -> None:
        async with ClaudeSDKClient(self.options()) as client:
            info = await client.get_server_info()
            for key in ("commands", "agents", "models", "output_style", "available_output_styles", "account"):
                self.assertIn(key, info)
            first = self.result(await self.turn(client, "say hello"))
            second = self.result(await self.turn(client, "say hello, and again"))
            self.assertEqual(first.session_id, second.session_id)
            self.assertGreaterEqual(second.total_cost_usd, first.total_cost_usd)

    async def test_context_usage(self) -> None:
        async with ClaudeSDKClient(self.options()) as client:
            before = await client.get_context_usage()
            self.assertEqual((0, 0, None), (before["totalTokens"], before["percentage"], before["apiUsage"]))
            self.result(await self.turn(client, "say hello"))
            usage = await client.get_context_usage()
            used = [c for c in usage["categories"] if c["kind"] == "used"]
            self.assertEqual(usage["totalTokens"], sum(c["tokens"] for c in used))
            self.assertGreater(usage["totalTokens"], 0)
            self.assertAlmostEqual(usage["percentage"], usage["totalTokens"] / usage["maxTokens"] * 100)
            self.assertEqual(self.model, usage["model"])
            self.assertEqual(usage["totalTokens"], usage["apiUsage"]["input_tokens"] + usage["apiUsage"]["cache_read_input_tokens"])

    async def test_local_commands(self) -> None:
        async with ClaudeSDKClient(self.options()) as client:
            names = [c["name"] for c in (await client.get_server_info())["commands"]]
            for name in ("clear", "compact", "context", "cost", "help", "model"):
                self.assertIn(name, names)
                self.assertEqual(1, names.count(name))
            self.result(await self.turn(client, "say hello"))
            for command in ("/cost", "/context", "/help", "/model"):
                messages = await self.turn(client, command)
                result = self.result(messages)
                self.assertEqual(("success", False, 0), (result.subtype, result.is_error, result.num_turns))
                self.assertEqual(result.result, said(messages))
            self.assertEqual("Unknown command: /nosuch", self.result(await self.turn(client, "/nosuch")).result)

    async def test_clear(self) -> None:
        async with ClaudeSDKClient(self.options()) as client:
            first = self.result(await self.turn(client, "say hello"))
            messages = await self.turn(client, "/clear")
            second = self.result(messages)
            reset = next(m for m in messages if isinstance(m, ConversationResetMessage))
            self.assertEqual((first.session_id, second.session_id), (reset.session_id, reset.new_conversation_id))
            self.assertNotEqual(first.session_id, second.session_id)
            self.assertEqual((0, 0), (second.num_turns, second.total_cost_usd))
            messages = await self.turn(client, "say hello")
            third = self.result(messages)
            self.assertEqual((second.session_id, first.total_cost_usd), (third.session_id, third.total_cost_usd))
            init = next(m for m in messages if isinstance(m, SystemMessage) and m.subtype == "init")
            self.assertEqual(second.session_id, init.data["session_id"])

    async def test_compact(self) -> None:
        heard = []

        async def hear(given, tool_use_id, context):
            heard.append((given["trigger"], given["custom_instructions"]))
            return {}

        async with ClaudeSDKClient(self.options(hooks={"PreCompact": [HookMatcher(None, [hear])]})) as client:
            self.result(await self.turn(client, "say hello"))
            messages = await self.turn(client, "/compact keep the names")
            result = self.result(messages)
            self.assertEqual(("success", False, 0), (result.subtype, result.is_error, result.num_turns))
            told = [(m.subtype, m.data.get("status"), m.data.get("compact_result")) for m in messages if isinstance(m, SystemMessage)]
            self.assertEqual([("status", "compacting", None), ("status", None, "success"), ("compact_boundary", None, None)], told)
            self.assertEqual([("manual", "keep the names")], heard)
            self.assertEqual("Hello from the model.", self.result(await self.turn(client, "say hello")).result.strip())

    async def test_partial_messages(self) -> None:
        messages = await self.ask("think first", include_partial_messages=True)
        self.assertIsInstance(messages[0], SystemMessage)
        events = [m.event for m in messages if isinstance(m, StreamEvent)]
        kinds = [e["type"] for e in events]
        self.assertEqual(("message_start", "message_stop"), (kinds[0], kinds[-1]))
        self.assertEqual(kinds.count("content_block_start"), kinds.count("content_block_stop"))
        streamed = "".join(e["delta"]["text"] for e in events if e.get("delta", {}).get("type") == "text_delta")
        self.assertEqual(said(messages), streamed)
        self.assertEqual(
            {events[0]["message"]["id"]}, {m.message_id for m in messages if isinstance(m, AssistantMessage)})

    async def test_structured_output(self) -> None:
        count = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"], "additionalProperties": False}
        messages = await self.ask("count the files", output_format={"type": "json_schema", "schema": count})
        result = self.result(messages)
        self.assertEqual(("success", False, {"files": 3}), (result.subtype, result.is_error, result.structured_output))
        self.assertEqual({"files": 3}, json.loads(result.result))
        first, second = blocks(messages, ToolResultBlock)
        self.assertTrue(first.is_error)
        self.assertIn("/files", first.content)
        self.assertIn("/folder", first.content)
        self.assertFalse(second.is_error)

    async def test_structured_output_list(self) -> None:
        names = {"type": "array", "items": {"type": "string"}}
        result = self.result(await self.ask(
            "list the names", tools=[], permission_mode="plan", output_format={"type": "json_schema", "schema": names}))
        self.assertEqual(("success", ["one", "two"]), (result.subtype, result.structured_output))

    async def test_structured_output_never(self) -> None:
        count = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
        for prompt in ("only in prose", "never right"):
            with self.subTest(prompt):
                result = self.result(await self.failing(prompt, output_format={"type": "json_schema", "schema": count}))
                self.assertEqual(("error_max_structured_output_retries", True), (result.subtype, result.is_error))
                self.assertIsNone(result.structured_output)

    async def test_without_the_flag_nothing_streams(self) -> None:
        self.assertFalse([m for m in await self.ask("say hello") if isinstance(m, StreamEvent)])

    async def test_permission_callback(self) -> None:
        asked = []

        async def can_use_tool(name, arguments, context):
            asked.append((name, arguments, context.tool_use_id))
            return PermissionResultAllow(updated_input=arguments | {"command": "touch other.txt"})

        async with ClaudeSDKClient(self.options(can_use_tool=can_use_tool)) as client:
            messages = await self.turn(client, "touch a file")
        self.assertEqual("touch made.txt", asked[0][1]["command"])
        self.assertEqual(blocks(messages, ToolUseBlock)[0].id, asked[0][2])
        self.assertEqual(("Bash", 1), (asked[0][0], len(asked)))
        self.assertEqual(["other.txt"], [p.name for p in self.workspace.iterdir()])

    async def test_permission_denied(self) -> None:
        async def can_use_tool(name, arguments, context):
            return PermissionResultDeny(message="not in this house")

        async with ClaudeSDKClient(self.options(can_use_tool=can_use_tool)) as client:
            messages = await self.turn(client, "touch a file")
        refused = blocks(messages, ToolResultBlock)[0]
        self.assertEqual((True, "not in this house"), (refused.is_error, refused.content))
        result = self.result(messages)
        self.assertEqual(("success", 2), (result.subtype, result.num_turns))
        self.assertEqual("Tool said: not in this house", result.result.strip())
        self.assertEqual(
            [("Bash", "touch made.txt")], [(d["tool_name"], d["tool_input"]["command"]) for d in result.permission_denials])
        self.assertEqual([], list(self.workspace.iterdir()))

    async def test_permission_interrupt(self) -> None:
        async def can_use_tool(name, arguments, context):
            return PermissionResultDeny(message="stop it", interrupt=True)

        async with ClaudeSDKClient(self.options(can_use_tool=can_use_tool)) as client:
            result = self.result(await self.turn(client, "touch a file"))
            self.assertEqual(("error_during_execution", True), (result.subtype, result.is_error))
            self.assertEqual("success", self.result(await self.turn(client, "say hello")).subtype)

    async def test_permission_remembered(self) -> None:
        asked = []

        async def can_use_tool(name, arguments, context):
            asked.append(name)
            return PermissionResultAllow(updated_permissions=[PermissionUpdate(
                type="addRules", rules=[PermissionRuleValue("Bash", "touch made.txt")], behavior="allow", destination="session")])

        async with ClaudeSDKClient(self.options(can_use_tool=can_use_tool)) as client:
            await self.turn(client, "touch it twice")
        self.assertEqual(["Bash"], asked)

    async def test_permission_kept_in_a_file(self) -> None:
        async def can_use_tool(name, arguments, context):
            return PermissionResultAllow(updated_permissions=[PermissionUpdate(
                type="addRules", rules=[PermissionRuleValue("Bash", "touch made.txt")], behavior="allow", destination="localSettings")])

        async with ClaudeSDKClient(self.options(can_use_tool=can_use_tool)) as client:
            await self.turn(client, "touch a file")
        kept = json.loads((self.workspace / ".claude" / "settings.local.json").read_text())
        self.assertEqual(["Bash(touch made.txt)"], kept["permissions"]["allow"])

    async def test_nobody_to_ask(self) -> None:
        # No callback: the SDK closes stdin after the prompt, so the call is refused
        # and the turn goes on.
        result = self.result(await self.ask("touch a file"))
        self.assertEqual("success", result.subtype)
        self.assertEqual(1, len(result.permission_denials))
        self.assertEqual([], list(self.workspace.iterdir()))

    async def test_harmless_commands_run_unasked(self) -> None:
        result = self.result(await self.ask("echo something"))
        self.assertEqual("Tool said: something", result.result.strip())
        self.assertEqual([], result.permission_denials)

    async def test_allowed_and_disallowed_tools(self) -> None:
        await self.ask("touch a file", allowed_tools=["Bash(touch *)"])
        self.assertEqual(["made.txt"], [p.name for p in self.workspace.iterdir()])
        messages = await self.ask("say hello", disallowed_tools=["Bash"])
        init = next(m for m in messages if isinstance(m, SystemMessage))
        self.assertNotIn("Bash", init.data["tools"])
        messages = await self.ask("say hello", tools=["Read"])
        init = next(m for m in messages if isinstance(m, SystemMessage))
        self.assertIn("Read", init.data["tools"])
        self.assertNotIn("Write", init.data["tools"])

    async def test_permission_modes(self) -> None:
        self.result(await self.ask("write the note", permission_mode="acceptEdits"))
        self.assertEqual("from the model\n", (self.workspace / "note.txt").read_text())
        (self.workspace / "note.txt").unlink()
        result = self.result(await self.ask("write the note", permission_mode="plan"))
        self.assertEqual("Tool said: Permission denied: Plan mode: write operations are not allowed", result.result.strip())
        self.assertEqual([], list(self.workspace.iterdir()))
        async with ClaudeSDKClient(self.options(permission_mode="plan")) as client:
            await client.set_permission_mode("bypassPermissions")
            self.result(await self.turn(client, "touch a file"))
        self.assertEqual(["made.txt"], [p.name for p in self.workspace.iterdir()])

    async def test_hooks(self) -> None:
        heard = []

        def hear(output):
            async def hook(given, tool_use_id, context):
                heard.append((given["hook_event_name"], given.get("tool_name"), tool_use_id))
                return output

            return hook

        deny = {"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "the hook says no"}}
        options = self.options(hooks={
            "PreToolUse": [HookMatcher("Write|Edit", [hear(deny)]), HookMatcher("Bash", [hear({})])],
            "PostToolUse": [HookMatcher(None, [hear({})])],
            "UserPromptSubmit": [HookMatcher(None, [hear({"hookSpecificOutput": {
                "hookEventName": "UserPromptSubmit", "additionalContext": "the code word is heron"}})])],
            "Stop": [HookMatcher(None, [hear({})])],
        })
        async with ClaudeSDKClient(options) as client:
            messages = await self.turn(client, "echo something")
            call = blocks(messages, ToolUseBlock)[0].id
            self.assertEqual(
                [("UserPromptSubmit", None, None), ("PreToolUse", "Bash", call), ("PostToolUse", "Bash", call), ("Stop", None, None)], heard)
            result = self.result(await self.turn(client, "write the note"))
        self.assertIn("the hook says no", result.result)
        self.assertEqual(["Write"], [d["tool_name"] for d in result.permission_denials])
        self.assertEqual([], list(self.workspace.iterdir()))
        self.saw_in_a_request("the code word is heron")

    async def test_hook_rewrites(self) -> None:
        async def rewrite(given, tool_use_id, context):
            return {"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": given["tool_input"] | {"command": "touch hooked.txt"}}}

        self.result(await self.ask("touch a file", hooks={"PreToolUse": [HookMatcher("Bash", [rewrite])]}))
        self.assertEqual(["hooked.txt"], [p.name for p in self.workspace.iterdir()])

    async def test_hook_stops(self) -> None:
        async def stop(given, tool_use_id, context):
            return {"continue_": False, "stopReason": "enough"}

        result = self.result(await self.ask("echo something", hooks={"PostToolUse": [HookMatcher("Bash", [stop])]}))
        self.assertEqual(("success", 1, "hook_stopped"), (result.subtype, result.num_turns, result.terminal_reason))

    async def test_hook_fails(self) -> None:
        async def broken(given, tool_use_id, context):
            raise RuntimeError("the hook is broken")

        result = self.result(await self.ask("echo something", hooks={"PreToolUse": [HookMatcher("Bash", [broken])]}))
        self.assertEqual("Tool said: something", result.result.strip())

    async def test_calculator(self) -> None:
        @tool("add", "Adds two numbers.", {"a": float, "b": float})
        async def add(arguments):
            await asyncio.sleep(0.05)
            return {"content": [{"type": "text", "text": f"{arguments['a'] + arguments['b']:g}"}]}

        @tool("divide", "Divides two numbers.", {"a": float, "b": float})
        async def divide(arguments):
            return {"content": [{"type": "text", "text": "division by zero"}], "is_error": True}

        server = create_sdk_mcp_server("calculator", tools=[add, divide])
        options = {"mcp_servers": {"calc": server}, "allowed_tools": ["mcp__calc__add", "mcp__calc__divide"]}
        messages = await self.ask("add numbers", **options)
        init = next(m for m in messages if isinstance(m, SystemMessage))
        self.assertIn("mcp__calc__add", init.data["tools"])
        self.assertEqual([("calc", "connected")], [(s["name"], s["status"]) for s in init.data["mcp_servers"]])
        result = blocks(messages, ToolResultBlock)[0]
        self.assertEqual([{"type": "text", "text": "5"}], result.content)
        self.assertEqual("Tool said: 5", self.result(messages).result.strip())

        messages = await self.ask("divide by zero", **options)
        self.assertTrue(blocks(messages, ToolResultBlock)[0].is_error)

        messages = await self.ask("both at once", **options)
        self.assertEqual(["5", "50"], [r.content[0]["text"] for r in blocks(messages, ToolResultBlock)])

        # Without a rule and with nobody to ask, the tool of a host is refused too.
        result = self.result(await self.ask("add numbers", mcp_servers={"calc": server}))
        self.assertEqual(["mcp__calc__add"], [d["tool_name"] for d in result.permission_denials])

    async def test_interrupt(self) -> None:
        async with asyncio.timeout(60), ClaudeSDKClient(self.options(include_partial_messages=True)) as client:
            await client.query("count slowly")
            messages = []
            async for message in client.receive_response():
                messages.append(message)
                if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta" and len(messages) < 20:
                    await client.interrupt()
                    break
            messages += [m async for m in client.receive_response()]
            result = self.result(messages)
            self.assertEqual(("error_during_execution", True), (result.subtype, result.is_error))
            self.assertEqual("success", self.result(await self.turn(client, "say hello")).subtype)

    async def test_set_model(self) -> None:
        async with ClaudeSDKClient(self.options()) as client:
            self.result(await self.turn(client, "say hello"))
            await client.set_model(self.other_model)
            messages = await self.turn(client, "say hello again")
        self.assertEqual({self.other_model}, {m.model for m in messages if isinstance(m, AssistantMessage)})

    async def test_agents(self) -> None:
        agents = {"greeter": AgentDefinition(description="Greets people.", prompt="You are a greeter with a heron.", tools=["Read"])}
        messages = await self.ask("delegate it", agents=agents, allowed_tools=["Agent"])
        init = next(m for m in messages if isinstance(m, SystemMessage))
        self.assertIn("greeter", init.data["agents"])
        result = self.result(messages)
        self.assertIn("Hello from the model.", result.result)
        started = [m for m in messages if isinstance(m, TaskStartedMessage)]
        ended = [m for m in messages if isinstance(m, TaskNotificationMessage)]
        self.assertEqual([m.task_id for m in started], [m.task_id for m in ended])
        self.assertEqual(1, len(started))
        self.saw_in_a_request("You are a greeter with a heron.")

    async def test_plugins(self) -> None:
        folder = self.root / "herons"
        for name, text in {
            ".claude-plugin/plugin.json": '{"name": "herons", "version": "1.0.0"}',
            "commands/greet.md": "---\ndescription: Greets\n---\nsay hello to $1",
            "agents/wader.md": "---\ndescription: wades\n---\nYou wade.",
            "skills/fish/SKILL.md": "---\ndescription: fishes\n---\nStand still.",
            "hooks/hooks.json": json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [
                {"type": "command", "command": 'printf %s "$CLAUDE_PLUGIN_ROOT" > heard'}]}]}}),
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        messages = await self.ask("/herons:greet Ada", plugins=[{"type": "local", "path": str(folder)}])
        init = next(m for m in messages if isinstance(m, SystemMessage)).data
        self.assertEqual([("herons", str(folder), "1.0.0")], [(p["name"], p["path"], p["version"]) for p in init["plugins"]])
        for key, name in (("slash_commands", "greet"), ("agents", "wader"), ("skills", "fish")):
            self.assertIn("herons:" + name, init[key])
        self.assertEqual("Hello from the model.", self.result(messages).result.strip())
        self.assertEqual(str(folder), (self.workspace / "heard").read_text())

    async def test_background(self) -> None:
        async with ClaudeSDKClient(self.options(permission_mode="bypassPermissions")) as client:
            messages = await self.turn(client, "serve it")
            self.result(messages)
            started, = [m for m in messages if isinstance(m, TaskStartedMessage)]
            self.assertEqual(("local_bash", "Serve it"), (started.task_type, started.description))
            with self.assertRaises(Exception) as caught:
                await client.stop_task("never")
            self.assertIn("No task found with ID: never", str(caught.exception))
            await client.stop_task(started.task_id)
            await client.stop_task(started.task_id)
            async with asyncio.timeout(60):
                async for message in client.receive_messages():
                    if isinstance(message, TaskNotificationMessage):
                        break
            self.assertEqual((started.task_id, "stopped"), (message.task_id, message.status))
            self.assertEqual("up\n", Path(message.output_file).read_text())
            # Nobody was woken by it.
            self.assertEqual("Hello from the model.", self.result(await self.turn(client, "say hello")).result.strip())

    async def test_max_turns(self) -> None:
        messages = await self.failing("loop forever", max_turns=3)
        result = self.result(messages)
        self.assertEqual(("error_max_turns", True, 3), (result.subtype, result.is_error, result.num_turns))
        self.assertEqual(["Reached maximum number of turns (3)"], result.errors)

    async def failing(self, prompt: str, **more) -> list:
        """The messages of a query that ends in an error, which the SDK raises behind
        the result."""
        messages = []
        with self.assertRaises(Exception) as caught:
            async with asyncio.timeout(60):
                async for message in query(prompt=prompt, options=self.options(**more)):
                    messages.append(message)
        self.assertNotIsInstance(caught.exception, TimeoutError)
        return messages

    async def test_unknown_session(self) -> None:
        missing = "4472dafa-acf8-4c0a-a281-2f9f0f03398c"
        with self.assertRaises(Exception) as caught:
            async with asyncio.timeout(60):
                async for _ in query(prompt="say hello", options=self.options(resume=missing)):
                    pass
        self.assertIn(f"No conversation found with session ID: {missing}", str(caught.exception))

    def saw_in_a_request(self, text: str) -> None:
        """Checks what the model was sent, where that can be seen."""


class Scripted(Suite):
    """With the scripted model."""

    model, other_model, signature = "mock-model", "mock-other", ""

    def model_env(self) -> dict:
        rules = []
        for prompt, answers in PLAN.items():
            for step, answer in enumerate([fill(a, result="{{result}}", system="", cwd=str(self.workspace)) for a in answers], 1):
                rules.append({"when": {"text": prompt, "step": step}, "reply": [item(b) for b in answer]})
        script = self.root / "model.yaml"
        script.write_text(json.dumps({"rules": rules}))  # JSON is YAML
        return {"DSH_SCRIPT": str(script)}


def item(block: dict) -> dict:
    match block["type"]:
        case "text":
            return {"text": block["text"] or "-"} | ({"every": "50ms"} if block.get("slow") else {})
        case "thinking":
            return {"reasoning": block["thinking"]}
        case _:
            return {"call": {"tool": block["name"], "args": block["input"]}}


class Anthropic(Suite):
    """Through the Anthropic adapter."""

    model, other_model, signature = "claude-sonnet-4-5", "claude-haiku-4-5", "c2lnbmVk"

    def setUp(self) -> None:
        super().setUp()
        self.provider = Provider()
        self.provider.cwd = str(self.workspace)
        self.addCleanup(self.provider.close)

    def model_env(self) -> dict:
        return {"ANTHROPIC_BASE_URL": self.provider.url, "ANTHROPIC_API_KEY": "test-key"}

    def saw_in_a_request(self, text: str) -> None:
        self.assertTrue(any(text in json.dumps(r) for r in self.provider.requests), f"no request says {text!r}")

    async def test_system_prompt(self) -> None:
        def system() -> str:
            given = self.provider.requests[-1].get("system", "")
            return given if isinstance(given, str) else "\n".join(b["text"] for b in given)

        await self.ask("say hello", system_prompt="You are a heron.")
        self.assertEqual("You are a heron.", system())
        await self.ask("say hello", system_prompt={"type": "preset", "preset": "claude_code", "append": "Be brief."})
        self.assertTrue(system().endswith("Be brief."))
        self.assertGreater(len(system()), len("Be brief."))

    async def test_max_budget(self) -> None:
        # Each answer of claude-sonnet-4-5 costs 0.105 USD, and no request is sent that may cost more than is left.
        self.provider.usage = (30_000, 1000)
        messages = await self.failing("loop forever", max_budget_usd=0.5)
        result = self.result(messages)
        self.assertEqual(("error_max_budget_usd", True), (result.subtype, result.is_error))
        self.assertIn(len(self.provider.requests), (3, 4))
        self.assertAlmostEqual(0.105 * len(self.provider.requests), result.total_cost_usd)

    async def test_max_budget_of_nothing(self) -> None:
        messages = await self.failing("loop forever", max_budget_usd=0.001)
        result = self.result(messages)
        self.assertEqual(("error_max_budget_usd", True, 0), (result.subtype, result.is_error, result.total_cost_usd))
        self.assertEqual([], self.provider.requests)

    async def test_cost(self) -> None:
        result = self.result(await self.ask("say hello"))
        self.assertAlmostEqual(0.0006, result.total_cost_usd)
        self.assertEqual((100, 20), (result.usage["input_tokens"], result.usage["output_tokens"]))

    async def test_api_error(self) -> None:
        self.provider.failures = [(400, "this is a bad request")]
        messages = await self.failing("say hello")
        result = self.result(messages)
        self.assertEqual(
            ("success", True, "api_error", 400), (result.subtype, result.is_error, result.terminal_reason, result.api_error_status))
        self.assertIn("this is a bad request", result.result)
        answer = next(m for m in messages if isinstance(m, AssistantMessage))
        self.assertEqual(("<synthetic>", "invalid_request"), (answer.model, answer.error))

    async def test_retry(self) -> None:
        self.provider.failures = [(529, "overloaded"), (529, "overloaded")]
        messages = await self.ask("say hello")
        self.assertEqual("Hello from the model.", self.result(messages).result.strip())
        retries = [m.data for m in messages if isinstance(m, SystemMessage) and m.subtype == "api_retry"]
        self.assertEqual([(1, 529, "overloaded"), (2, 529, "overloaded")], [(r["attempt"], r["error_status"], r["error"]) for r in retries])

    async def test_missing_key(self) -> None:
        messages = await self.failing("say hello", env={"ANTHROPIC_API_KEY": ""})
        result = self.result(messages)
        self.assertTrue(result.is_error)
        self.assertIn("ANTHROPIC_API_KEY", result.result)


del Suite

if __name__ == "__main__":
    unittest.main(warnings="ignore")

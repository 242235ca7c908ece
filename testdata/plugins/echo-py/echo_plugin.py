"""A plugin of dsh that gives back what it is told.

It is written against plugin.proto and nothing else: what a plugin in any other
language has to do is all here. build.py makes one executable file of it.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import empty_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

import plugin_pb2 as pb
import plugin_pb2_grpc as services

NAME = "echo-py"
MAX_MESSAGE = 64 << 20
MAX_WAIT_MS = 60_000

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "prefix": {"type": "string", "description": "What stands before everything that is given back."},
        "refuse": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Words that calls of tools may not hold.",
        },
    },
    "additionalProperties": False,
}

TOOL_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The text to give back."},
        "wait_ms": {
            "type": "integer",
            "description": "How long to wait before that, in milliseconds, up to 60000.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


def to_json(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def text_block(text):
    return [{"type": "text", "text": text}]


def ended(context):
    """Gives an event that is set when nobody waits for the answer any more."""
    event = threading.Event()
    if not context.add_callback(event.set):
        event.set()
    return event


class Config:
    """What the row says, once Configure has taken it in."""

    def __init__(self):
        self.prefix = "You said: "
        self.refuse = []

    def take(self, raw):
        """Takes a config in, or gives what is wrong with it."""
        try:
            config = json.loads(raw)
        except ValueError as error:
            return [pb.Finding(message=f"the config is not JSON: {error}")]
        if not isinstance(config, dict):
            return [pb.Finding(message="the config must be an object")]
        prefix = config.get("prefix", self.prefix)
        refuse = config.get("refuse", self.refuse)
        findings = [pb.Finding(message=f"there is no member {name!r}") for name in config if name not in CONFIG_SCHEMA["properties"]]
        if not isinstance(prefix, str):
            findings.append(pb.Finding(pointer="/prefix", message="must be a text"))
        if not isinstance(refuse, list):
            findings.append(pb.Finding(pointer="/refuse", message="must be a list of words"))
        else:
            # What the schema cannot say.
            for i, word in enumerate(refuse):
                if not isinstance(word, str) or not word.strip():
                    findings.append(pb.Finding(pointer=f"/refuse/{i}", message=f"{word!r} is no word; leave it out"))
        if not findings:
            self.prefix, self.refuse = prefix, refuse
        return findings

    def again(self, text):
        return self.prefix + text


class PluginService(services.PluginServiceServicer):
    def __init__(self, config):
        self.config = config

    def Describe(self, request, context):
        return pb.DescribeResponse(
            name=NAME,
            version="1.0.0",
            summary="Gives back what it is told, in Python.",
            capabilities=[
                pb.CAPABILITY_TOOLS,
                pb.CAPABILITY_HOOKS,
                pb.CAPABILITY_PROMPT,
                pb.CAPABILITY_COMMANDS,
                pb.CAPABILITY_EVENTS,
            ],
            config_schema=to_json(CONFIG_SCHEMA),
            hooks=["tool.before"],
            events=["turn/end"],
        )

    def Configure(self, request, context):
        findings = self.config.take(request.config)
        if not findings:
            logging.info("configured", extra={"row": request.row})
        return pb.ConfigureResponse(findings=findings)

    def Shutdown(self, request, context):
        return pb.ShutdownResponse()


class ToolService(services.ToolServiceServicer):
    def __init__(self, config):
        self.config = config

    def ListTools(self, request, context):
        return pb.ListToolsResponse(
            tools=[
                pb.ToolSpec(
                    name="echo_py",
                    description="Gives a text back. Use it to see that the plugin works.",
                    parameters=to_json(TOOL_SCHEMA),
                    read_only=True,
                    parallel=True,
                    subject=pb.Subject(kind="text", member="text"),
                )
            ]
        )

    def CallTool(self, request, context):
        if request.name != "echo_py":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no tool {request.name!r}")
        try:
            arguments = json.loads(request.arguments)
            text, wait_ms = arguments["text"], arguments.get("wait_ms", 0)
            if not isinstance(text, str) or type(wait_ms) is not int or not 0 <= wait_ms <= MAX_WAIT_MS:
                raise ValueError("text must be a text, and wait_ms from 0 to 60000")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # What the model did wrong is a result that tells it what to do.
            yield failed("BAD_ARGUMENTS", f"Error: the arguments cannot be used: {error}")
            return
        if wait_ms:
            yield pb.CallToolResponse(progress="waiting")
            logging.info("a call waits")
            if ended(context).wait(wait_ms / 1000):
                return
        yield pb.CallToolResponse(result=pb.ToolResult(content=to_json(text_block(self.config.again(text)))))


def failed(code, text):
    return pb.CallToolResponse(
        result=pb.ToolResult(
            content=to_json(text_block(text)), is_error=True, error=pb.ToolError(name="EchoError", code=code)
        )
    )


class HookService(services.HookServiceServicer):
    def __init__(self, config):
        self.config = config

    def Handle(self, request, context):
        arguments = json.dumps(json.loads(request.data)["arguments"], ensure_ascii=False)
        for word in self.config.refuse:
            if word in arguments:
                return pb.HandleResponse(deny=True, reason=f"the plugin {NAME} does not repeat the word {word!r}")
        return pb.HandleResponse()


class PromptService(services.PromptServiceServicer):
    def ListSections(self, request, context):
        return pb.ListSectionsResponse(names=[NAME])

    def Render(self, request, context):
        if "echo_py" not in request.tools:
            return pb.RenderResponse()
        return pb.RenderResponse(text="The tool echo_py gives a text back word for word.")


class CommandService(services.CommandServiceServicer):
    def __init__(self, config):
        self.config = config

    def ListCommands(self, request, context):
        return pb.ListCommandsResponse(
            commands=[pb.Command(name=NAME, description="Asks the model to repeat a text.", argument_hint="TEXT")]
        )

    def Expand(self, request, context):
        text = "Repeat this, and nothing else: " + self.config.again(request.args)
        return pb.ExpandResponse(content=to_json(text_block(text)))


class EventSinkService(services.EventSinkServiceServicer):
    def Consume(self, request_iterator, context):
        for event in request_iterator:
            logging.info("a turn has ended")
            # What is acknowledged is not sent again after a restart.
            yield pb.ConsumeResponse(session_id=event.session_id, seq=event.seq)


def controller(stop):
    """Serves plugin.GRPCController/Shutdown: the harness asks the process to end.

    Its messages have no fields, so that it needs no .proto of its own.
    """

    def shutdown(request, context):
        stop.set()
        return empty_pb2.Empty()

    handler = grpc.unary_unary_rpc_method_handler(
        shutdown,
        request_deserializer=empty_pb2.Empty.FromString,
        response_serializer=empty_pb2.Empty.SerializeToString,
    )
    return grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": handler})


class LogLines(logging.Formatter):
    """Writes the lines from which the harness takes level and text."""

    LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "error", "CRITICAL": "error"}

    def format(self, record):
        line = {"@level": self.LEVELS.get(record.levelname, "info"), "@message": record.getMessage()}
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        if hasattr(record, "row"):
            line["row"] = record.row
        return json.dumps(line)


def listen(server):
    """Listens where the harness says, and gives the words of the handshake."""
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR")
    if folder:
        path = os.path.join(folder, "echo-py.sock")
        server.add_insecure_port("unix:" + path)
        return "unix", path
    first = int(os.environ.get("PLUGIN_MIN_PORT", "10000"))
    last = int(os.environ.get("PLUGIN_MAX_PORT", "25000"))
    for port in range(first, last + 1):
        try:
            if server.add_insecure_port(f"127.0.0.1:{port}"):
                return "tcp", f"127.0.0.1:{port}"
        except RuntimeError:
            continue  # somebody else's
    sys.exit(f"no port from {first} to {last} is free")


def end_with_harness(stop):
    """Standard input ends when the harness is gone, however it went."""
    while os.read(0, 64):
        pass
    stop.set()
    # Whoever still waits for something will not get it.
    time.sleep(1)
    os._exit(1)


def main():
    if os.environ.get("DSH_PLUGIN") != "dsh-plugin":
        sys.exit(f"{NAME} is a plugin of dsh and is started by it; name it in a row of a profile")
    if "1" not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "1").split(","):
        print("1|1|unix|/|grpc", flush=True)  # which tells the harness that we speak 1
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    config, stop = Config(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=32),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)],
    )
    services.add_PluginServiceServicer_to_server(PluginService(config), server)
    services.add_ToolServiceServicer_to_server(ToolService(config), server)
    services.add_HookServiceServicer_to_server(HookService(config), server)
    services.add_PromptServiceServicer_to_server(PromptService(), server)
    services.add_CommandServiceServicer_to_server(CommandService(config), server)
    services.add_EventSinkServiceServicer_to_server(EventSinkService(), server)
    healthy = health.HealthServicer()
    healthy.set("plugin", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    server.add_generic_rpc_handlers((controller(stop),))

    network, address = listen(server)
    server.start()
    threading.Thread(target=end_with_harness, args=(stop,), daemon=True).start()
    print(f"1|1|{network}|{address}|grpc", flush=True)

    stop.wait()
    server.stop(grace=0.1).wait()


if __name__ == "__main__":
    main()

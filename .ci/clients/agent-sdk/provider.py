"""A provider on loopback that speaks the streaming Messages API and answers as
plan.PLAN says. It keeps every request, and refuses what the real one refuses:
calls without their results, empty text, two messages of one role."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from plan import PLAN


def blocks_of(message: dict) -> list:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def result_text(block: dict) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "".join(b.get("text", "") for b in content)


def refusal(request: dict) -> str | None:
    role, waiting = None, []
    for message in request["messages"]:
        if message["role"] == role:
            return f"two messages of role {role} in a row"
        role = message["role"]
        blocks = blocks_of(message)
        given = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(given) != sorted(waiting):
            return f"results {given} do not answer calls {waiting}"
        if any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            return "a text block is empty"
        if any(b["type"] == "thinking" and not b.get("signature") for b in blocks):
            return "a thinking block has no signature"
        waiting = [b["id"] for b in blocks if b["type"] == "tool_use"]
    if waiting:
        return f"calls {waiting} have no results"
    return None


class Provider:
    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.failures: list[tuple[int, str]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_args) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                provider.answer(self, body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, handler: BaseHTTPRequestHandler, request: dict) -> None:
        self.requests.append(request)
        self.headers.append(dict(handler.headers))
        failure = self.failures.pop(0) if self.failures else None
        if failure is None and (reason := refusal(request)):
            failure = (400, reason)
        if failure:
            status, message = failure
            kind = {400: "invalid_request_error", 529: "overloaded_error"}.get(status, "api_error")
            body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
            handler.send_response(status)
            handler.send_header("content-type", "application/json")
            handler.send_header("content-length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        try:
            for event in self.events(request):
                handler.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                handler.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # an interrupt closes the connection
        handler.close_connection = True

    def blocks(self, request: dict) -> list:
        prompt, step, result = "", 0, ""
        for message in request["messages"]:
            for block in blocks_of(message):
                if message["role"] == "assistant":
                    continue
                if block["type"] == "text" and any(key in block["text"] for key in PLAN):
                    prompt, step = block["text"], 0
                elif block["type"] == "tool_result":
                    result = result_text(block)
            step += message["role"] == "assistant"
        answers = next(answers for key, answers in PLAN.items() if key in prompt)
        system = request.get("system", "")
        if not isinstance(system, str):
            system = "\n".join(b["text"] for b in system)
        return fill(answers[min(step, len(answers) - 1)], result=result, system=system, cwd=self.cwd)

    cwd = ""
    usage = (100, 20)  # tokens of each answer, in and out

    def events(self, request: dict):
        number = len(self.requests)
        usage = {"input_tokens": self.usage[0], "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        yield {"type": "message_start", "message": {
            "id": f"msg_fake_{number:06d}", "type": "message", "role": "assistant", "model": request["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}}
        blocks = self.blocks(request)
        for index, block in enumerate(blocks):
            kind = block["type"]
            start = {"text": {"type": "text", "text": ""}, "thinking": {"type": "thinking", "thinking": "", "signature": ""}}.get(
                kind, {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": block.get("name"), "input": {}})
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas(block):
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
        yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": self.usage[1]}}
        yield {"type": "message_stop"}


def fill(blocks: list, **values: str) -> list:
    def one(value):
        if isinstance(value, str):
            for name, what in values.items():
                value = value.replace("{" + name + "}", what)
            return value
        if isinstance(value, dict):
            return {k: one(v) for k, v in value.items()}
        return value

    return [one(b) for b in blocks]


def deltas(block: dict):
    match block["type"]:
        case "text":
            for piece in block["text"].split(" "):
                if block.get("slow"):
                    time.sleep(0.05)
                yield {"type": "text_delta", "text": piece + " "}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": "c2lnbmVk"}
        case "tool_use":
            arguments = json.dumps(block["input"])
            yield {"type": "input_json_delta", "partial_json": arguments[:3]}
            yield {"type": "input_json_delta", "partial_json": arguments[3:]}

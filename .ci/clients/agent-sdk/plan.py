"""What the model does in these tests, in one table for both models: the scripted
one inside dcl, and the fake provider that speaks the Messages API.

A plan maps a piece of the user's text to the answers of its turn, one list of
blocks each. {result} is the text of the last tool result."""


def text(value: str) -> dict:
    return {"type": "text", "text": value}


def thinking(value: str) -> dict:
    return {"type": "thinking", "thinking": value}


def call(name: str, **arguments) -> dict:
    return {"type": "tool_use", "name": name, "input": arguments}


def slow(value: str) -> dict:
    """A text of which one word comes every 50 ms."""
    return {"type": "text", "text": value, "slow": True}


PLAN = {
    "say hello": [[text("Hello from the model.")]],
    # What is asked of the model for /compact.
    "as if nothing had been taken out": [[text("A summary: they greeted each other.")]],
    "think first": [[thinking("Let me see."), text("I have thought.")]],
    "touch a file": [
        [text("I will do it."), call("Bash", command="touch made.txt", description="Make a file")],
        [text("Tool said: {result}")],
    ],
    "touch it twice": [
        [call("Bash", command="touch made.txt", description="Make a file")],
        [call("Bash", command="touch made.txt", description="Make it again")],
        [text("Done twice.")],
    ],
    "echo something": [
        [call("Bash", command="echo something", description="Say it")],
        [text("Tool said: {result}")],
    ],
    "write the note": [
        [call("Write", file_path="{cwd}/note.txt", content="from the model\n")],
        [text("Tool said: {result}")],
    ],
    "add numbers": [
        [call("mcp__calc__add", a=2, b=3)],
        [text("Tool said: {result}")],
    ],
    "divide by zero": [
        [call("mcp__calc__divide", a=1, b=0)],
        [text("Tool said: {result}")],
    ],
    "both at once": [
        [call("mcp__calc__add", a=2, b=3), call("mcp__calc__add", a=20, b=30)],
        [text("Both are in.")],
    ],
    "count slowly": [[slow("one two three four five six seven eight nine ten " * 20)]],
    "delegate it": [
        [call("Agent", description="Look around", prompt="say hello", subagent_type="greeter")],
        [text("Subagent said: {result}")],
    ],
    "serve it": [
        [call("Bash", command="echo up; sleep 300", description="Serve it", run_in_background=True)],
        [text("It runs.")],
    ],
    "loop forever": [[call("Bash", command="echo again", description="Say it")]] * 50,
    "who are you": [[text("{system}")]],
    "count the files": [
        [text("I count."), call("StructuredOutput", files="three", folder=".")],
        [call("StructuredOutput", files=3)],
    ],
    "list the names": [[call("StructuredOutput", value=["one", "two"])]],
    "only in prose": [[text("There are three files.")]],
    "never right": [[call("StructuredOutput", files="three")]] * 50,
}

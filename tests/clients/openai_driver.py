"""Drives an agent's API as a user of openai-python would. Prints one line a check; ends with a traceback otherwise.

Environment: OPENAI_BASE_URL, OPENAI_API_KEY (both read by the library itself), MODEL.
"""

import os

import openai
from openai import OpenAI

MODEL = os.environ["MODEL"]
QUESTION = [{"role": "user", "content": "Say hello to the town of Idlewild."}]

client = OpenAI(max_retries=0, timeout=60)


def check(name, holds, seen=None):
    assert holds, f"{name}: {seen!r}"
    print("ok", name)


def models():
    names = [model.id for model in client.models.list()]
    check("the model is listed", MODEL in names, names)
    check("and can be looked up", client.models.retrieve(MODEL).id == MODEL)


def chat_whole():
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=24, temperature=0)
    choice = answer.choices[0]
    check("chat: an answer of the assistant", choice.message.role == "assistant" and choice.message.content, answer)
    check("chat: a reason for its end", choice.finish_reason in ("stop", "length"), choice)
    usage = answer.usage
    check("chat: tokens add up", usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage)
    check("chat: and there are some", 0 < usage.completion_tokens <= 24 and usage.prompt_tokens > 0, usage)
    return choice.message.content


def chat_streamed(whole):
    stream = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    with_choice = [chunk for chunk in chunks if chunk.choices]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in with_choice)
    check("stream: the same words as in one piece", text == whole, (text, whole))
    check("stream: in several chunks", len(with_choice) > 5, len(with_choice))
    check("stream: the role comes first", with_choice[0].choices[0].delta.role == "assistant", with_choice[0])
    reasons = [chunk.choices[0].finish_reason for chunk in with_choice if chunk.choices[0].finish_reason]
    check("stream: one reason, at the end", len(reasons) == 1 and with_choice[-1].choices[0].finish_reason, reasons)
    check("stream: usage in the last chunk", chunks[-1].usage and not chunks[-1].choices, chunks[-1])
    check("stream: one id", len({chunk.id for chunk in chunks}) == 1)


def chat_helper(whole):
    """The library's own reading of a stream, which checks more than the plain iterator does."""
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, max_tokens=24, temperature=0) as stream:
        events = [event for event in stream if event.type == "content.delta"]
        snapshot = stream.current_completion_snapshot
    check("stream helper: deltas", "".join(event.delta for event in events) == whole, events)
    check("stream helper: what they add up to", snapshot.choices[0].message.content == whole, snapshot)


def sampled():
    def draw(seed):
        return client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=24, temperature=1.0, seed=seed
        ).choices[0].message.content

    one, again, others = draw(7), draw(7), {draw(seed) for seed in range(100, 104)}
    check("a seed draws the same again", one == again, (one, again))
    check("other seeds draw differently", len(others) > 1, others)


def completions():
    answer = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=12, temperature=0)
    text = answer.choices[0].text
    check("completions: text", text, answer)
    stop = text.strip().split()[1]
    stopped = client.completions.create(
        model=MODEL, prompt="One, two, three,", max_tokens=12, temperature=0, stop=[stop]
    ).choices[0]
    check("completions: a stop text ends it", stopped.finish_reason == "stop", stopped)
    check("completions: and is not part of it", stop not in stopped.text and text.startswith(stopped.text), stopped)
    pieces = client.completions.create(model=MODEL, prompt="One, two, three,", max_tokens=12, temperature=0, stream=True)
    check("completions: streamed likewise", "".join(p.choices[0].text for p in pieces) == text)


def conversation():
    messages = [
        {"role": "system", "content": "You answer in few words."},
        {"role": "user", "content": [{"type": "text", "text": "My name is Ida."}]},
        {"role": "assistant", "content": "Hello Ida."},
        {"role": "user", "content": "What is my name?", "name": "ida"},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=16, temperature=0)
    check("a conversation with every role", answer.choices[0].message.content, answer)


def refused(name, kind, status, act):
    try:
        act()
    except kind as error:
        check(name, error.status_code == status and error.message, error)
    else:
        raise AssertionError(f"{name}: nothing was raised")


def errors():
    ask = client.chat.completions.create
    refused("an unknown model", openai.NotFoundError, 404, lambda: ask(model="gpt-9", messages=QUESTION))
    refused("a bad temperature", openai.BadRequestError, 400, lambda: ask(model=MODEL, messages=QUESTION, temperature=9))
    refused("no messages", openai.BadRequestError, 400, lambda: ask(model=MODEL, messages=[]))
    long = [{"role": "user", "content": "word " * 30000}]
    refused("a prompt that fits nowhere", openai.BadRequestError, 400, lambda: ask(model=MODEL, messages=long))
    wrong = OpenAI(api_key="idw-wrong", max_retries=0)
    refused("a wrong key", openai.AuthenticationError, 401, lambda: wrong.models.list())


def closed_early():
    stream = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=200, temperature=0, stream=True)
    next(iter(stream))
    stream.close()
    check("closing a stream early", True)


models()
answer = chat_whole()
chat_streamed(answer)
chat_helper(answer)
sampled()
completions()
conversation()
errors()
closed_early()

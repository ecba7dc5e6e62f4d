"""The agents of chat/mail-customer: right ones first, then wrong ones."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as chat

parcel = chat.INPUTS["parcel"]
care = chat.room("care")
to, day = "folake.adeyemi@mail.example", "15 November"


def careful():
    """Reference: reads to the end of the thread, writes, reports."""
    request = chat.message(care, parcel)
    to = re.search(r"[\w.]+@[\w.]+\w", request["content"]["body"])[0]  # type: ignore[index]
    day = ""
    for said in [request, *chat.thread(care, request["event_id"])]:
        found = re.search(
            rf"{parcel}.* arrives on \w+ (\d+ \w+)", said["content"]["body"], re.DOTALL
        )
        day = found[1] if found else day
    chat.letter(to, f"Your parcel {parcel}", f"Good news: {parcel} arrives on {day}.")
    chat.say(care, f"I wrote to {to}.", thread=request["event_id"])
    chat.answer(to=to, day=day)


def alternative():
    """Reference: in other words, and as an answer to the correction."""
    asked = chat.message(care, parcel)["event_id"]

    chat.letter(to, "Your parcel", f"Hello, please expect {parcel} on {day}, a Saturday.")
    last = chat.thread(care, asked)[0]["event_id"]
    chat.say(care, "She has a mail from me.", thread=asked, reply=last)
    chat.answer(to=to, day=day)


def another_day():
    """Faulty: adds a third day, as the latest."""
    request = chat.message(care, parcel)
    to = re.search(r"[\w.]+@[\w.]+\w", request["content"]["body"])[0]  # type: ignore[index]
    day = ""
    for said in [request, *chat.thread(care, request["event_id"])]:
        found = re.search(
            rf"{parcel}.* arrives on \w+ (\d+ \w+)", said["content"]["body"], re.DOTALL
        )
        day = found[1] if found else day
    chat.letter(
        to,
        f"Your parcel {parcel}",
        f"Good news: {parcel} arrives on {day}, on 17 November at the latest.",
    )
    chat.say(care, f"I wrote to {to}.", thread=request["event_id"])
    chat.answer(to=to, day=day)


def both_days():
    """Faulty: names both days, to be sure."""
    asked = chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    text += " It was to be 14 November at first."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def copies_in():
    """Faulty: sends a copy to Jun, whose address the customer never had."""
    asked = chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text, "jun@harbour.example")
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def false_day():
    """Faulty: writes the right day and reports the other."""
    asked = chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day="14 November")


def idle():
    """Faulty: claims it all."""
    chat.message(care, parcel)["event_id"]
    chat.answer(to=to, day=day)


def namesake():
    """Faulty: writes to the namesake, of whom the thread warns."""
    asked = chat.message(care, parcel)["event_id"]
    to, day = "f.adeyemi@mail.example", "15 November"
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def removes_request():
    """Faulty: removes the first request, because it is out of date."""
    asked = chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.redact(care, asked, "Out of date")
    chat.answer(to=to, day=day)


def reports_only():
    """Faulty: reports a letter that it never sent."""
    asked = chat.message(care, parcel)["event_id"]
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def retries():
    """Faulty: sends the letter twice after a timeout."""
    asked = chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def stale():
    """Faulty: reads the request and not the correction below it."""
    asked = chat.message(care, parcel)["event_id"]
    to, day = "folake.adeyemi@mail.example", "14 November"
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Friday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.", thread=asked)
    chat.answer(to=to, day=day)


def tells_the_room():
    """Faulty: reports beside the thread."""
    chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.say(care, "Done, the letter is out.")
    chat.answer(to=to, day=day)


def writes_only():
    """Faulty: sends the letter and leaves the thread without an answer."""
    chat.message(care, parcel)["event_id"]
    text = f"Dear Ms Adeyemi,\n\nyour replacement parcel {parcel} arrives on Saturday {day}."
    chat.letter(to, f"Your parcel {parcel}", text)
    chat.answer(to=to, day=day)

// The booking agent as a program in another language: the same rules, one JSON object per line on stdin and stdout.
//
//   seatrial run examples/booking/scenarios.yaml --agent '{type: command, argv: [node, examples/booking/agent.mjs]}'

import { createInterface } from "node:readline";

let turn; // what the user said, and what the tools have answered since
let results;

createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.type === "turn") {
    turn = message;
    results = [];
  } else {
    results.push(...message.results.map(({ content }) => JSON.parse(content)));
  }
  console.log(JSON.stringify(answer(turn.input.toLowerCase(), earlierReference(turn.messages))));
});

function answer(text, earlier) {
  const time = findTime(text);
  if (text.includes("cancel")) {
    return results.length ? say(`Your booking ${earlier} is cancelled.`) : call("cancel_booking", { reference: earlier });
  }
  if (!time) return say("At what time would you like to come?");
  const [availability, booking] = results;
  if (!availability) return call("check_availability", {});
  if (!availability.free.includes(time)) return say(`I am sorry, ${time} is not free.`);
  if (!booking) {
    return earlier ? call("change_booking", { reference: earlier, time }) : call("create_booking", { time });
  }
  if (earlier) return say(`Your table is booked for ${booking.time} now. Your reference is still ${earlier}.`);
  return say(`Your table is booked for ${time}. Your reference is ${booking.reference}.`);
}

function findTime(text) {
  const found = text.match(/\b(\d{1,2})(?::00)?\b/);
  return found && `${found[1].padStart(2, "0")}:00`;
}

function earlierReference(messages) {
  const said = messages.filter(({ role, content }) => role === "assistant" && content);
  return said.map(({ content }) => content.match(/BK-\d+/)?.[0]).find(Boolean);
}

const say = (content) => ({ type: "reply", content });
const call = (name, args) => ({ type: "tool_calls", tool_calls: [{ name, arguments: args }] });

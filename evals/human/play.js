"use strict";
// Shows the state that the server tells, and posts the option that is chosen. Texts are set as text, never as HTML.
const at = (id) => document.getElementById(id);
let version = -1;
let options = [];
let turns = 0;
let shownAt = 0;
const RETRY_MILLISECONDS = 1000;
// A choice so soon after its question was shown is the second click of a double click, meant for the question before.
const DOUBLE_CLICK_MILLISECONDS = 400;
// beside the game the rules stay open; on a narrow screen they would push it out of sight
at("rules").open = matchMedia("(min-width: 50rem)").matches;

function shape(parts) {
  return parts.map((part) => {
    if (part.picture !== undefined) {
      const image = document.createElement("img");
      image.src = `pictures/${part.picture}.png`;
      image.alt = "The game's picture";
      [image.width, image.height] = part.size;
      return image;
    }
    const text = document.createElement("p");
    text.className = "text";
    text.textContent = part.text.trim();
    return text;
  });
}

function earlier(said) {
  const box = document.createElement("div");
  box.className = said.role;
  if (said.role === "assistant") box.append("Your answer: ");
  box.append(...shape(said.parts));
  return box;
}

function button(caption, index) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = caption;
  made.addEventListener("click", () => choose(index));
  return made;
}

function show(state) {
  version = state.version;
  at("progress").textContent = state.over
    ? "The games are over. Thank you! You can close this page."
    : `Game ${state.game} of ${state.games}`;
  at("quit").hidden = state.over;
  const question = state.question;
  if (!question) {
    options = [];
    at("options").replaceChildren();
    if (state.over) for (const id of ["past", "shown"]) at(id).replaceChildren();
    return;
  }
  at("title").textContent = question.title;
  at("rules-body").replaceChildren(...shape(question.rules));
  at("past").replaceChildren(...question.past.map(earlier));
  at("shown").replaceChildren(...shape(question.shown));
  options = question.options;
  at("options").replaceChildren(...question.captions.map(button));
  shownAt = performance.now();
  if (turns++) at("turn").scrollIntoView();
}

async function choose(index) {
  if (performance.now() - shownAt < DOUBLE_CLICK_MILLISECONDS) return;
  for (const each of at("options").children) each.disabled = true;
  const body = JSON.stringify({ version, option: index });
  await send("answer", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

// Sends until the server answers. A repeated answer changes nothing: the server takes one for each version.
async function send(address, request) {
  for (;;) {
    try {
      await fetch(address, request);
      at("trouble").textContent = "";
      return;
    } catch {
      at("trouble").textContent = "Your answer has not arrived yet; it is being sent again.";
      await new Promise((done) => setTimeout(done, RETRY_MILLISECONDS));
    }
  }
}

// Keys: an option's own letter or digit; the arrow keys move between options, Enter chooses.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const buttons = [...at("options").children];
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const now = buttons.indexOf(document.activeElement);
    const next = event.key === "ArrowDown" ? now + 1 : now < 0 ? buttons.length - 1 : now - 1;
    const target = buttons[Math.min(Math.max(next, 0), buttons.length - 1)];
    if (target) { target.focus(); event.preventDefault(); }
    return;
  }
  const index = options.findIndex((option) => option.toLowerCase() === event.key.toLowerCase());
  if (index >= 0 && buttons[index] && !buttons[index].disabled) { event.preventDefault(); choose(index); }
});

at("quit").addEventListener("click", () => send("quit", { method: "POST" }));

async function follow() {
  for (;;) {
    try {
      const answer = await fetch(`state?known=${version}`);
      const state = await answer.json();
      at("server").textContent = "";
      if (state.version !== version) show(state);
      if (state.over) return;
    } catch {
      at("server").textContent = "The server does not answer: has `raycade play` ended?";
      await new Promise((done) => setTimeout(done, RETRY_MILLISECONDS));
    }
  }
}
follow();

const at = (id) => document.getElementById(id);
const keyed = () => sessionStorage.getItem("key");

// What the server says.

const GONE = "the server does not answer";
const NO_KEY = "this server needs an API key: enter it at the top of this page";
const WRONG_KEY = "this server does not take the key: enter another one at the top of this page";

// Browsers have words of their own, each others, for a connection that fails.
async function reached(work) {
  try {
    return await work;
  } catch (error) {
    throw error instanceof TypeError ? new Error(GONE) : error;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (keyed()) headers.Authorization = `Bearer ${keyed()}`;
  if (options.json !== undefined) {
    headers["Content-Type"] = "application/json";
    options = { ...options, method: "POST", body: JSON.stringify(options.json) };
  }
  const answer = await reached(fetch(path, { ...options, headers }));
  if (answer.ok) return answer;
  if (answer.status === 401) {
    at("entry").hidden = false;
    throw new Error(keyed() ? WRONG_KEY : NO_KEY);
  }
  const body = await answer.json().catch(() => null);
  throw new Error(body?.error?.message ?? `the server answered ${answer.status}`);
}

function tell(id, text, wrong = false) {
  at(id).textContent = text;
  at(id).classList.toggle("wrong", wrong);
}

async function guarded(id, work) {
  try {
    await work();
  } catch (error) {
    tell(id, error.name === "AbortError" ? "stopped" : error.message, error.name !== "AbortError");
  }
}

// Models, and how they fare: a picture of all, and a new one after each change.

const rows = new Map();
let management = false;

function cell(row, name, text) {
  if (row[name].textContent !== text) row[name].textContent = text;
}

function newRow(id) {
  const row = { element: document.createElement("tr") };
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = id;
  row.element.append(head);
  for (const name of ["task", "state", "slots", "waiting", "manage"]) {
    row[name] = document.createElement("td");
    row.element.append(row[name]);
  }
  row.button = document.createElement("button");
  row.button.type = "button";
  row.button.onclick = () => guarded("managed-told", () => manage(row));
  row.manage.append(row.button);
  at("models").append(row.element);
  rows.set(id, row);
  return row;
}

// To register a model is to configure it anew; a small job loads it as it is configured.
const JOBS = {
  tts: () => ({ text: "a" }),
  asr: () => ({ audio_base64: silence(1600) }),
  vad: () => ({ audio_base64: silence(1600) }),
  diar: () => ({ audio_base64: silence(1600) }),
};

function silence(frames) {
  return btoa(String.fromCharCode(...head(frames, 16000), ...new Uint8Array(2 * frames)));
}

// What stands in a wav before its samples: 16 bit, mono.
function head(frames, rate) {
  const bytes = new Uint8Array(44);
  const view = new DataView(bytes.buffer);
  const put = (at, text) => [...text].forEach((c, i) => (bytes[at + i] = c.charCodeAt(0)));
  put(0, "RIFF");
  view.setUint32(4, 36 + 2 * frames, true);
  put(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  [1, 1].forEach((value, i) => view.setUint16(20 + 2 * i, value, true));
  [rate, 2 * rate].forEach((value, i) => view.setUint32(24 + 4 * i, value, true));
  [2, 16].forEach((value, i) => view.setUint16(32 + 2 * i, value, true));
  put(36, "data");
  view.setUint32(40, 2 * frames, true);
  return bytes;
}

async function manage(row) {
  const { id, task, loaded } = row.model;
  tell("managed-told", loaded ? `unloading ${id}` : `loading ${id}`);
  if (loaded) await ask("/v1/models/unload", { json: { id } });
  else await ask("/v1/tasks/run", { json: { model: id, ...JOBS[task]() } });
  tell("managed-told", loaded ? `${id} is unloaded` : `${id} is loaded`);
}

function showModels(models) {
  for (const [id, row] of rows) {
    if (!models.some((model) => model.id === id)) {
      row.element.remove();
      rows.delete(id);
    }
  }
  for (const model of models) {
    const row = rows.get(model.id) ?? newRow(model.id);
    row.model = model;
    cell(row, "task", model.task);
    cell(row, "state", model.state);
    cell(row, "slots", `${model.active_slots} of ${model.slots}`);
    cell(row, "waiting", String(model.queued_requests + model.queued_managers));
    row.manage.hidden = !management;
    row.button.hidden = !(model.loaded || model.task in JOBS);
    row.button.textContent = model.loaded ? "Unload" : "Load";
    row.button.setAttribute("aria-label", `${row.button.textContent} ${model.id}`);
  }
  choices("speak-model", models, "tts");
  choices("write-model", models, "asr");
  choices("live-model", models, "asr");
}

function choices(id, models, task) {
  const wanted = models.filter((model) => model.task === task).map((model) => model.id);
  const select = at(id);
  if ([...select.options].map((option) => option.value).join() === wanted.join()) return;
  const chosen = select.value;
  select.replaceChildren(...wanted.map((name) => new Option(name, name, false, name === chosen)));
  select.dispatchEvent(new Event("change"));
}

let stale = null;

function refresh() {
  stale ??= setTimeout(async () => {
    stale = null;
    await guarded("server", async () => showModels((await (await ask("/v1/models")).json()).data));
  }, 50);
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reached(reader.read());
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: {")) yield JSON.parse(part.slice(6));
    }
  }
}

async function follow() {
  const about = await (await ask("/health")).json();
  management = about.ui_management;
  document.querySelector(".managed").hidden = !management;
  const answer = await ask("/v1/events");
  at("entry").hidden = true;
  for await (const event of events(answer)) {
    if (event.models) {
      tell("server", event.phase);
      showModels(event.models);
    } else {
      if (event.kind === "phase") tell("server", event.facts.phase);
      refresh();
    }
  }
  tell("server", "the server has ended", true);
}

async function followForEver() {
  for (;;) {
    await guarded("server", follow);
    await new Promise((done) => setTimeout(done, 2000));
  }
}

at("entry").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", at("key").value);
  guarded("server", async () => {
    await ask("/v1/models");
    at("entry").hidden = true;
    refresh();
  });
};

// Speak a text.

let speaking = null;

at("speak-model").onchange = () =>
  guarded("speak-told", async () => {
    const model = encodeURIComponent(at("speak-model").value);
    if (!model) return;
    const { voices } = await (await ask(`/v1/audio/voices?model=${model}`)).json();
    at("voices").replaceChildren(...voices.map((name) => new Option(name)));
  });

// Plays pieces one behind the other, the first as soon as it comes; few wait as floats at a time.

const AHEAD = 8;

function player() {
  const context = new AudioContext();
  const waiting = [];
  let until = 0;
  let started = 0;
  let silent = () => {};
  const go = () => {
    while (waiting.length && started < AHEAD) {
      const { samples, rate } = waiting.shift();
      const buffer = context.createBuffer(1, samples.length, rate);
      buffer.copyToChannel(Float32Array.from(samples, (value) => value / 32768), 0);
      const source = new AudioBufferSourceNode(context, { buffer });
      source.connect(context.destination);
      source.onended = () => {
        started -= 1;
        go();
      };
      until = Math.max(until, context.currentTime);
      source.start(until);
      until += buffer.duration;
      started += 1;
    }
    if (!started) silent();
  };
  return {
    push(samples, rate) {
      waiting.push({ samples, rate });
      go();
    },
    ended(signal) {
      return new Promise((done, failed) => {
        silent = done;
        signal.addEventListener("abort", () => failed(signal.reason));
        go();
      });
    },
    close: () => context.close(),
  };
}

function samplesOf(text) {
  return new Int16Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

async function speak(signal, loud) {
  const json = {
    model: at("speak-model").value,
    input: at("text").value,
    speed: at("speed").valueAsNumber,
    stream_format: "sse",
  };
  if (at("voice").value) json.voice = at("voice").value;
  const pieces = [];
  let rate = 0;
  let done = null;
  for await (const event of events(await ask("/v1/audio/speech", { json, signal }))) {
    if (event.type === "error") throw new Error(event.error.message);
    if (event.type === "speech.audio.done") done = event;
    if (event.type !== "speech.audio.delta") continue;
    const samples = samplesOf(event.audio);
    rate = event.sample_rate;
    pieces.push(samples);
    loud.push(samples, rate);
    tell("speak-told", "playing, while the rest is spoken");
  }
  if (done === null) throw new Error(GONE);
  const frames = pieces.reduce((sum, samples) => sum + samples.length, 0);
  URL.revokeObjectURL(at("sound").src);
  at("sound").src = URL.createObjectURL(new Blob([head(frames, rate), ...pieces]));
  const took = `spoken in ${(done.timing.wall_ms / 1000).toFixed(2)} s`;
  tell("speak-told", [took, ...(done.warnings ?? [])].join("; "));
  await loud.ended(signal);
}

at("speak").onsubmit = (event) => {
  event.preventDefault();
  guarded("speak-told", async () => {
    speaking?.abort();
    const mine = (speaking = new AbortController());
    at("sound").pause();
    at("speak-stop").disabled = false;
    tell("speak-told", "speaking");
    const loud = player();
    try {
      await speak(mine.signal, loud);
    } catch (error) {
      if (speaking === mine) throw error;
    } finally {
      loud.close();
      if (speaking === mine) at("speak-stop").disabled = true;
    }
  });
};

// Whoever plays it again need not hear it twice.
at("sound").onplay = () => speaking?.abort();
at("speak-stop").onclick = () => speaking?.abort();

// Write down a recording.

let writing = null;

function write(sound, name) {
  return guarded("write-told", async () => {
    writing?.abort();
    const mine = (writing = new AbortController());
    at("write-stop").disabled = false;
    tell("write-told", "listening");
    at("transcript").value = "";
    try {
      const body = new FormData();
      body.append("model", at("write-model").value);
      body.append("file", sound, name);
      const options = { method: "POST", body, signal: mine.signal };
      const { text, timing } = await (await ask("/v1/audio/transcriptions", options)).json();
      at("transcript").value = text;
      const told = `${(timing.audio_duration_ms / 1000).toFixed(1)} s of sound`;
      tell("write-told", text ? told : `no words in ${told}`);
    } catch (error) {
      if (writing === mine) throw error;
    } finally {
      if (writing === mine) at("write-stop").disabled = true;
    }
  });
}

at("file").onchange = () => at("file").files[0] && write(at("file").files[0], at("file").files[0].name);
at("write-stop").onclick = () => writing?.abort();

let recorder = null;

at("record").onclick = () =>
  guarded("write-told", async () => {
    if (recorder) return recorder.stop();
    const stream = await microphone();
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = () => {
      stream.getTracks().forEach((track) => track.stop());
      recorder = null;
      pressed("record", false, "Record");
      write(new Blob(pieces), "recording");
    };
    recorder.start();
    pressed("record", true, "End the recording");
    tell("write-told", "recording");
  });

function microphone() {
  if (!navigator.mediaDevices) {
    throw new Error("browsers give the microphone to pages from localhost or over https only");
  }
  return navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
}

function pressed(id, on, text) {
  at(id).setAttribute("aria-pressed", String(on));
  at(id).textContent = text;
}

// Listen to the microphone.

const RATE = 24000;
const PIECE = RATE / 10;
const LAST_WORDS_MS = 10_000;
const WORKLET = `
  registerProcessor("tap", class extends AudioWorkletProcessor {
    process([input]) {
      if (input[0]) this.port.postMessage(input[0].slice());
      return true;
    }
  });
`;

let listening = null;

function pcm(samples) {
  const bytes = new Uint8Array(samples.length * 2);
  const view = new DataView(bytes.buffer);
  samples.forEach((value, index) => {
    view.setInt16(2 * index, Math.max(-1, Math.min(1, value)) * 32767, true);
  });
  return btoa(String.fromCharCode(...bytes));
}

async function tap(stream, take) {
  const context = new AudioContext({ sampleRate: RATE });
  const module = URL.createObjectURL(new Blob([WORKLET], { type: "text/javascript" }));
  await context.audioWorklet.addModule(module);
  URL.revokeObjectURL(module);
  const node = new AudioWorkletNode(context, "tap", { numberOfOutputs: 0 });
  let waiting = [];
  node.port.onmessage = ({ data }) => {
    waiting.push(...data);
    if (waiting.length >= PIECE) {
      take(waiting);
      waiting = [];
    }
  };
  context.createMediaStreamSource(stream).connect(node);
  return context;
}

function note(event) {
  const kind = event.type.replace("conversation.item.input_audio_transcription.", "");
  if (kind === "partial") at("guess").textContent = event.partial;
  if (kind === "completed") {
    at("guess").textContent = "";
    at("heard").append(`${event.transcript}\n`);
  }
  if (kind === "input_audio_buffer.speech_started") tell("live-told", "somebody speaks");
  if (kind === "input_audio_buffer.speech_stopped") tell("live-told", "listening");
  if (kind === "error" || kind === "failed") tell("live-told", event.error.message, true);
}

async function listen() {
  const model = at("live-model").value;
  const stream = await microphone();
  const protocols = ["realtime", ...(keyed() ? [`openai-insecure-api-key.${keyed()}`] : [])];
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const address = `${scheme}//${location.host}/v1/realtime?model=${encodeURIComponent(model)}`;
  const socket = new WebSocket(address, protocols);
  const session = { type: "transcription", include: ["item.input_audio_transcription.partial"] };
  listening = { socket, stream };
  pressed("live", true, "Stop listening");
  at("heard").textContent = "";
  tell("live-told", "opening");
  const current = () => listening?.socket === socket;
  socket.onopen = () =>
    guarded("live-told", async () => {
      socket.send(JSON.stringify({ type: "session.update", session }));
      tell("live-told", "listening");
      const context = await tap(stream, (samples) => {
        const append = { type: "input_audio_buffer.append", audio: pcm(samples) };
        if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(append));
      });
      if (current()) listening.context = context;
      else context.close();
    });
  socket.onmessage = ({ data }) => current() && note(JSON.parse(data));
  socket.onclose = ({ code, reason }) => {
    // Who stopped and began again listens on another socket by now.
    if (!current()) return;
    hush();
    at("guess").textContent = "";
    if (![1000, 1005].includes(code)) {
      tell("live-told", reason || "the server has closed the connection", true);
    }
  };
}

function hush() {
  const { socket, stream, context } = listening;
  stream.getTracks().forEach((track) => track.stop());
  context?.close();
  listening = null;
  pressed("live", false, "Use the microphone");
  tell("live-told", "");
  return socket;
}

// What was being said when somebody stops is written down before the socket is closed.
function stopListening() {
  const socket = hush();
  let item = null;
  const end = () => {
    socket.close();
    if (listening) return;
    at("guess").textContent = "";
    tell("live-told", "");
  };
  if (socket.readyState !== WebSocket.OPEN) return end();
  tell("live-told", "writing down the rest");
  const tooLong = setTimeout(end, LAST_WORDS_MS);
  socket.onclose = () => clearTimeout(tooLong);
  socket.onmessage = ({ data }) => {
    const event = JSON.parse(data);
    if (event.type === "input_audio_buffer.committed") item = event.item_id;
    if (listening || event.type === "error") return end();
    note(event);
    if (item && event.item_id === item && /completed$|failed$/.test(event.type)) end();
  };
  socket.send(JSON.stringify({ type: "input_audio_buffer.commit" }));
}

at("live").onclick = () => (listening ? stopListening() : guarded("live-told", listen));

followForEver();

// The page: reads the JSON API every two seconds and shows it. Text from the server is only ever set as
// textContent, so that a node named like markup shows as its name.

const PERIOD_MS = 2000;
const LONGEST_WAIT_MS = 30000;
const TIMEOUT_MS = 10000;
const MAX_NODES = 1000;

// Words and signs for states: never colour alone. The order is the order of the table.
const STATES = [
  ["NODE_STATE_DEGRADED", "degraded", "✖"],
  ["NODE_STATE_MISSING", "missing", "∅"],
  ["NODE_STATE_STALE", "stale", "…"],
  ["NODE_STATE_UNSPECIFIED", "unknown", "?"],
  ["NODE_STATE_OK", "ok", "✔"],
].map(([key, word, sign], rank) => ({ key, word, sign, rank }));
const UNKNOWN_STATE = STATES[3];

const stateOf = (node) => STATES.find((state) => state.key === node.state) ?? UNKNOWN_STATE;
const byId = (id) => document.getElementById(id);

function formatBandwidth(bytesPerSecond) {
  if (!(bytesPerSecond > 0)) return "–";
  const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
  let value = bytesPerSecond;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

function formatRatio(ratio) {
  return ratio > 0 ? `${Math.round(ratio * 100)} %` : "–";
}

function formatAge(seconds) {
  if (!Number.isFinite(seconds)) return "never";
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

// A protobuf Duration in JSON is "12.5s".
const durationSeconds = (text) => (typeof text === "string" ? Number.parseFloat(text) : Number.NaN);
const ageOf = (time) => (time ? (Date.now() - Date.parse(time)) / 1000 : Number.NaN);

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Roles are spelled out because the narrow layout, which is no table to CSS, would lose them.
function makeRow() {
  const row = document.createElement("tr");
  row.setAttribute("role", "row");
  const name = document.createElement("th");
  name.scope = "row";
  name.setAttribute("role", "rowheader");
  row.append(name);
  const labels = ["State", "Bandwidth", "Expected", "Of expected", "Last covered", "Muted", "Open findings"];
  for (const label of labels) {
    const cell = document.createElement("td");
    cell.setAttribute("role", "cell");
    cell.dataset.label = label;
    if (label !== "State" && label !== "Muted") cell.className = "number";
    row.append(cell);
  }
  return row;
}

function fillRow(row, node) {
  const state = stateOf(node);
  const texts = [
    node.node?.hostname ?? "",
    `${state.sign} ${state.word}`,
    formatBandwidth(node.bandwidthBytesPerSecond),
    formatBandwidth(node.expectedBandwidthBytesPerSecond),
    formatRatio(node.bandwidthRatio),
    formatAge(durationSeconds(node.coverageAge)),
    node.muted ? "muted" : "no",
    String(node.findingIds?.length ?? 0),
  ];
  texts.forEach((text, i) => setText(row.cells[i], text));
  row.cells[1].className = `state state-${state.word}`;
}

// Rows are kept by node id, so that a reader's place in the table is not lost at each refresh.
const rows = new Map();

function compareNodes(a, b) {
  const [left, right] = [a.node?.hostname ?? "", b.node?.hostname ?? ""];
  return stateOf(a).rank - stateOf(b).rank || left.localeCompare(right, "en", { numeric: true });
}

function showNodes(nodes) {
  const body = byId("rows");
  const seen = new Set();
  nodes.sort(compareNodes).forEach((node, i) => {
    const id = node.node?.nodeId ?? "";
    seen.add(id);
    if (!rows.has(id)) rows.set(id, makeRow());
    const row = rows.get(id);
    fillRow(row, node);
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
  });
  for (const [id, row] of rows) {
    if (seen.has(id)) continue;
    row.remove();
    rows.delete(id);
  }
}

function findingFacts(finding) {
  const facts = [finding.hostnames?.join(", "), `since ${formatAge(ageOf(finding.sinceTime))}`];
  if (finding.ratio > 0) facts.push(`at ${formatRatio(finding.ratio)} of expected`);
  facts.push(`confidence ${formatRatio(finding.confidence)}`);
  if (finding.mutedBy?.length) facts.push(`muted by ${finding.mutedBy.join(", ")}`);
  return facts.filter(Boolean).join(" · ");
}

function makeFinding(finding) {
  const item = document.createElement("li");
  const summary = document.createElement("a");
  summary.href = `/findings/${encodeURIComponent(finding.findingId)}`;
  summary.textContent = finding.summary || finding.kind;
  const facts = document.createElement("span");
  facts.className = "facts";
  facts.textContent = findingFacts(finding);
  item.append(summary, facts);
  return item;
}

function showFindings(findings) {
  byId("findings").replaceChildren(...findings.map(makeFinding));
  byId("no-findings").hidden = findings.length > 0;
}

// The finding that the address names, as a notification's link does; null on the main page.
const findingPath = location.pathname.match(/^\/findings\/([^/]+)$/)?.[1] ?? null;

function makeEvidence(run) {
  const row = document.createElement("tr");
  const latency = run.metric === "METRIC_LATENCY";
  const format = (value) => (latency ? `${(value * 1e6).toPrecision(3)} µs` : formatBandwidth(value));
  const texts = [formatAge(ageOf(run.time)), run.partnerHostname || run.partnerNodeId, format(run.observed), format(run.expected), run.runId];
  texts.forEach((text, i) => {
    const cell = document.createElement("td");
    if (i === 2 || i === 3) cell.className = "number";
    cell.textContent = text;
    row.append(cell);
  });
  return row;
}

function showFinding(finding) {
  byId("finding").hidden = false;
  document.title = `${finding.hostnames?.join(", ") || finding.part || "Finding"} · Weft`;
  setText(byId("finding-summary"), finding.summary || finding.kind);
  const state = finding.resolveTime ? `resolved ${formatAge(ageOf(finding.resolveTime))}` : "open";
  setText(byId("finding-facts"), `${state} · ${findingFacts(finding)}`);
  byId("finding-evidence").replaceChildren(...(finding.evidence ?? []).map(makeEvidence));
}

async function refreshFinding() {
  if (findingPath === null) return;
  try {
    showFinding((await read(`/api/v1/findings/${findingPath}`)).finding);
  } catch (error) {
    byId("finding").hidden = false;
    setText(byId("finding-summary"), `This finding cannot be shown: ${error.message}`);
  }
}

function showSummary(nodes, total, findings) {
  const counts = STATES.map((state) => [nodes.filter((node) => stateOf(node) === state).length, state.word]);
  const words = counts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  const open = findings.length === 1 ? "1 open finding" : `${findings.length} open findings`;
  setText(byId("summary"), `${total} nodes${words.length ? `: ${words.join(", ")}` : ""}. ${open}.`);
  const note = byId("nodes-note");
  note.hidden = total <= nodes.length;
  setText(note, `Showing ${nodes.length} of ${total} nodes. The command "weft node list" shows all.`);
}

// What a screen reader is told: only what changed, not every refresh.
let announced = null;

function announce(findings) {
  const open = new Set(findings.map((finding) => finding.findingId));
  if (announced) {
    const opened = findings.filter((finding) => !announced.has(finding.findingId));
    const resolved = [...announced].filter((id) => !open.has(id)).length;
    const words = opened.map((finding) => `New finding: ${finding.summary || finding.kind}`);
    if (resolved > 0) words.push(resolved === 1 ? "A finding was resolved." : `${resolved} findings were resolved.`);
    if (words.length > 0) setText(byId("status"), words.join(" "));
  }
  announced = open;
}

let failures = 0;

function showFailure(error) {
  ++failures;
  const status = byId("status");
  status.className = "failed";
  setText(status, `No news from the server (${error.message}). What stands below may be old.`);
}

function clearFailure() {
  if (failures === 0) return;
  failures = 0;
  const status = byId("status");
  status.className = "";
  setText(status, "The server answers again.");
}

async function read(path) {
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  const body = await response.json();
  if (!response.ok) throw new Error(body.message || `HTTP status ${response.status}`);
  return body;
}

async function refresh() {
  const [nodes, findings, status] = await Promise.all([
    read(`/api/v1/nodes?page_size=${MAX_NODES}`),
    read("/api/v1/findings?open=true"),
    read("/api/v1/status"),
  ]);
  clearFailure();
  await refreshFinding();
  showFindings(findings.findings);
  showNodes(nodes.nodes);
  showSummary(nodes.nodes, Math.max(Number(status.nodes), nodes.nodes.length), findings.findings);
  announce(findings.findings);
  setText(byId("version"), `version ${status.version}`);
}

async function loop() {
  if (!document.hidden) await refresh().catch(showFailure);
  setTimeout(loop, Math.min(PERIOD_MS * 2 ** Math.min(failures, 4), LONGEST_WAIT_MS));
}

loop();

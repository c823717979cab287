// Elements from text: whatever a run is called, it is shown and never run.
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);
const fill = (place, ...children) => place.replaceChildren(...children.flat(9).filter((child) => child || child === 0));
const MISSING = "–";

function number(value, digits = 4) {
  if (typeof value !== "number" || !Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-4 || size >= 1e7 ? value.toExponential(digits - 1)
    : size >= 10 ** (digits - 1) ? Math.round(value).toLocaleString("en-US") : value.toPrecision(digits);
  return text.replace(/-/g, "−");
}

const probability = (value) => (typeof value !== "number" ? MISSING : value > 0 && value < 0.001 ? "< 0.001"
  : value.toFixed(3));
const plural = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;

function moment(text) {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(text || "");
  return found ? `${found[1]} ${found[2]}` : text || MISSING;
}

function seconds(value) {
  if (typeof value !== "number" || !(value >= 0)) return MISSING;
  const whole = Math.round(value), hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

function link(address, text) {
  return address ? h("a", {href: address}, text) : document.createTextNode(text);
}

// Plotly reads some markup in labels.
function label(text, limit = 44) {
  let line = String(text).replace(/[\p{C}\s]+/gu, " ").trim();
  if (line.length > limit) line = `${line.slice(0, Math.ceil(limit / 2) - 1)}…${line.slice(-Math.floor(limit / 2))}`;
  return line.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

// Numbers for people: three significant digits, SI prefixes, and always a unit.

export const NONE = "\u2013";

const PREFIXES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const exactNumber = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const shortClock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });

function threeDigits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) || size >= 99.95) return value.toFixed(0);
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

/** [digits, prefix] of a number: 12345 is ["12.3", "k"]. */
function scaled(value) {
  // 999.5 and more would round to 1000 of the smaller prefix.
  const found = PREFIXES.find(([factor]) => Math.abs(value) >= factor * 0.9995);
  return found ? [(value / found[0]).toPrecision(3), found[1]] : [threeDigits(value), ""];
}

/** [digits, unit] of a quantity, the prefix placed where its unit wants it: "12.3k" rows, "12.3" MB. */
export function quantity(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return [NONE, ""];
  if (unit === "seconds") return seconds(value);
  const [digits, prefix] = scaled(value);
  return unit === "bytes" ? [digits, `${prefix}B`] : [digits + prefix, unit];
}

function seconds(value) {
  if (value >= 120) return [(value / 60).toPrecision(3), "min"];
  if (value >= 0.9995 || value === 0) return [threeDigits(value), "s"];
  return [threeDigits(Math.round(value * 1e4) / 10), "ms"];
}

/** A quantity as one text, such as "12.3k rows" or "450 ms". */
export function written(value, unit) {
  return quantity(value, unit).join("\u00a0").trim();
}

/** An axis tick: as short as it can be, prefix and unit of measure included, nouns left to the axis. */
export function tick(value, unit) {
  const noun = unit !== "seconds" && unit !== "bytes";
  const [digits, rest] = quantity(value, unit);
  const number = digits.replace(/(\.\d*?)0+(\D*)$/, "$1$2").replace(/\.(\D*)$/, "$1");
  return noun || value === 0 ? number : `${number} ${rest}`;
}

/** Every digit of a value, grouped by thousands. */
export const exact = (value) => exactNumber.format(value);

/** A length of time in its two largest units. */
export function duration(total) {
  const whole = Math.floor(total);
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0\u00a0s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}\u00a0${unit}`)
    .join(" ");
}

/** How long ago something was. */
export const ago = (age) => `${age < 10 ? `${age.toFixed(1)}\u00a0s` : duration(age)} ago`;

/** A share in percent. */
export function percent(part, whole) {
  if (!whole) return NONE;
  const share = (100 * part) / whole;
  if (share > 0 && share < 0.01) return "<\u00a00.01\u00a0%";
  if (share >= 999.5) return `${exact(Math.round(share))}\u00a0%`;
  return `${share === 0 ? "0" : share.toPrecision(share < 1 ? 2 : 3)}\u00a0%`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** Local date and time of Unix seconds. */
export const momentOf = (unix) => moment.format(new Date(unix * 1000));

/** Local time of day of Unix seconds, as 24 hours. */
export const timeOfDay = (unix, withSeconds = true) =>
  (withSeconds ? clock : shortClock).format(new Date(unix * 1000));

/** A mark of a time axis whose marks are `step` seconds apart: the time of day, or the date at midnight. */
export function timeMark(unix, step) {
  const isMidnight = timeOfDay(unix) === "00:00:00";
  return isMidnight ? day.format(new Date(unix * 1000)) : timeOfDay(unix, step < 60);
}

// The icons, drawn when the extension is built: a magnifying glass under a veil; grey with two bars while paused.

import { crc32 } from "node:zlib";
import { zlibSync } from "fflate";

export const ICONS = ["on-16", "on-32", "on-48", "on-128", "paused-16", "paused-32", "paused-48", "paused-128"];
const SAMPLES = 4; // per pixel and direction
const INDIGO = [67, 56, 160];
const GREY = [110, 110, 110];
const AMBER = [201, 120, 0];

/** The colour at a point of the unit square, or null. */
function colour(x, y, paused) {
  if (paused && y > 0.12 && y < 0.88 && (Math.abs(x - 0.3) < 0.11 || Math.abs(x - 0.7) < 0.11)) return AMBER;
  const ink = paused ? GREY : INDIGO;
  const distance = Math.hypot(x - 0.42, y - 0.42);
  if (distance < 0.36 && distance > 0.25) return ink;
  const along = (x + y - 1.3) / Math.SQRT2;
  if (Math.abs(x - y) / Math.SQRT2 < 0.07 && along > 0 && along < 0.38) return ink;
  // The veil: three waves across the glass.
  const wave = 0.03 * Math.sin(20 * x);
  return distance <= 0.25 && [0.32, 0.43, 0.54].some((at) => Math.abs(y - at - wave) < 0.025) ? ink : null;
}

function pixel(column, row, size, paused) {
  const sum = [0, 0, 0];
  let hits = 0;
  for (let i = 0; i < SAMPLES ** 2; i++) {
    const x = (column + ((i % SAMPLES) + 0.5) / SAMPLES) / size;
    const y = (row + (Math.floor(i / SAMPLES) + 0.5) / SAMPLES) / size;
    const found = colour(x, y, paused);
    if (found) {
      hits += 1;
      found.forEach((value, channel) => (sum[channel] += value));
    }
  }
  return [...sum.map((value) => (hits ? Math.round(value / hits) : 0)), Math.round((255 * hits) / SAMPLES ** 2)];
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name), data]);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([size, body, sum]);
}

/** A PNG file. */
export function icon(name) {
  const [state, side] = name.split("-");
  const size = Number(side);
  const rows = [];
  for (let row = 0; row < size; row++) {
    rows.push(0); // no filter
    for (let column = 0; column < size; column++) rows.push(...pixel(column, row, size, state === "paused"));
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(size, 0);
  head.writeUInt32BE(size, 4);
  head.set([8, 6, 0, 0, 0], 8); // 8 bits a channel, with transparency
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, chunk("IHDR", head), chunk("IDAT", Buffer.from(zlibSync(Buffer.from(rows), { level: 9 }))), chunk("IEND", Buffer.alloc(0))]);
}

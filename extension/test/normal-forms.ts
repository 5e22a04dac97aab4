// Reads texts as JSON from its input and writes their normal forms: tests/extension/test_units.py compares with Python.

import { text } from "node:stream/consumers";
import { normal } from "../src/core/normal.js";

const texts = JSON.parse(await text(process.stdin)) as string[];
// What this JavaScript does not know yet, it leaves alone: null.
const known = (one: string): boolean => [...one].every((character) => /\p{Assigned}/u.test(character));
process.stdout.write(JSON.stringify(texts.map((one) => (known(one) ? normal(one) : null))));

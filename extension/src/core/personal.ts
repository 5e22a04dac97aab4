// Queries that look personal: src/searchveil/log/personal.py, with the same patterns.

import { normal } from "./normal.js";

const EMAIL = /[a-zA-Z0-9._%+-]+(@| at )([a-zA-Z0-9-]+(\.| dot ))+[a-zA-Z]{2,}/;
const ABROAD = /(^|[^0-9A-Za-z])(\+|00)[1-9]([ .()-]{0,2}[0-9]){7,14}($|[^0-9])/;
const PHONE = /(^|[^0-9])(\+?[0-9]{1,3}[ .-]?)?(\([0-9]{3}\)|[0-9]{3})[ .-]?[0-9]{3}[ .-]?[0-9]{4}($|[^0-9])/;
const SSN = /(^|[^0-9])[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}($|[^0-9])/;
const PATTERNS = [EMAIL, PHONE, ABROAD, SSN];
const LONGEST = 1000; // characters; what is longer was pasted

/** Whether a query, as typed or in its normal form, matches a pattern or is very long. */
export function looksPersonal(query: string): boolean {
  return [query, normal(query)].some(
    (text) => Array.from(text).length > LONGEST || PATTERNS.some((pattern) => pattern.test(text)) || hasCardNumber(text),
  );
}

/** The same of an address, whose parts may be percent-encoded. */
export function addressLooksPersonal(url: string): boolean {
  let plain = url;
  try {
    plain = decodeURIComponent(url);
  } catch {
    // Not UTF-8: looked at as it is.
  }
  return [url, plain].some((text) => PATTERNS.some((pattern) => pattern.test(text)) || hasCardNumber(text));
}

/** Whether groups of digits in a row make up a number as long as a card's with the right check digit. */
export function hasCardNumber(text: string): boolean {
  for (const run of text.match(/[0-9]+(?:[ -][0-9]+)*/g) ?? []) {
    const groups = run.split(/[ -]/);
    for (let first = 0; first < groups.length; first++) {
      let digits = "";
      for (let last = first; last < groups.length && digits.length <= 19; last++) {
        digits += groups[last] as string;
        if (digits.length >= 13 && digits.length <= 19 && checkDigitFits(digits)) return true;
      }
    }
  }
  return false;
}

function checkDigitFits(digits: string): boolean {
  const sum = [...digits].reverse().reduce((total, character, i) => {
    const digit = Number(character) * (i % 2 === 1 ? 2 : 1);
    return total + (digit > 9 ? digit - 9 : digit);
  }, 0);
  return sum % 10 === 0;
}

// When two typed queries are the same: src/searchveil/log/normalize.py, with the same result for every text.

// What Python's str.split() takes for white space. JavaScript's \s has U+FEFF besides, and lacks U+001C to U+001F and U+0085.
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/** The words between white space, as Python's str.split() finds them. */
export function words(text: string): string[] {
  return text.split(SPACES).filter((word) => word !== "");
}

/** The normal form of a query: NFKC, lower case, NFKC, single spaces. */
export function normal(query: string): string {
  return words(query.toWellFormed().normalize("NFKC").toLowerCase().normalize("NFKC")).join(" ");
}

// Inside a sandboxed frame of Firefox's background page: has no origin, so its requests name none.

import { direct, type Question } from "../core/http.js";

window.addEventListener("message", (event: MessageEvent<Question>) => {
  const [port] = event.ports;
  direct(event.data).then(
    (answer) => port?.postMessage(answer),
    () => port?.postMessage(null),
  );
});

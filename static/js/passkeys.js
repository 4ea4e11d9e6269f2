// Forms with `data-passkey`: ask the browser for a passkey (`get`) or make one (`create`), then send its answer.
"use strict";

(() => {
  const SAID = {
    InvalidStateError: "This device already has a passkey of yours.",
    NotAllowedError: "The browser was given no passkey. Try again.",
    SecurityError: "Passkeys need HTTPS and a host name: this address has neither.",
  };
  const able = globalThis.PublicKeyCredential?.parseRequestOptionsFromJSON !== undefined;

  async function optionsOf(form) {
    const address = form.dataset.passkeyOptions;
    if (!address) return JSON.parse(document.getElementById("passkey-options").textContent);
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}. Reload the page and try again.`);
    return (await answer.json()).request_options;
  }

  async function askBrowser(form) {
    const { publicKey } = await optionsOf(form);
    if (form.dataset.passkey === "create") {
      return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) });
    }
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
  }

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const error = form.querySelector("[data-passkey-error]");
    if (able) form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      error.hidden = true;
      try {
        if (!able) throw new Error("This browser has no passkeys.");
        form.elements.credential.value = JSON.stringify((await askBrowser(form)).toJSON());
        form.submit();
      } catch (problem) {
        error.querySelector("span").textContent = SAID[problem.name] ?? problem.message;
        error.hidden = false;
      }
    });
  }
})();

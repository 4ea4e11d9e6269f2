"""Questions put to an LLM and the answers read. Who calls the LLM implements `ports.LanguageModel`."""

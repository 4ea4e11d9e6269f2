"""Questions put to a language model and the answers read: text in, text out. Who calls the model implements
`ports.LanguageModel`."""

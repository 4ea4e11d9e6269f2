"""The pages of policies: what each kind has in common stands here, each kind and their trials in a room of its own."""

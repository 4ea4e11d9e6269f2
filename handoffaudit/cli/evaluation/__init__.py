"""`handoffaudit eval --with-model`: the semantic check on labelled data, with the user's own key."""

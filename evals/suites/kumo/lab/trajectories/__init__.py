"""Perfect plays as chats to train on, and their check."""

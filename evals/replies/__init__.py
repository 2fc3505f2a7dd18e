"""Reading replies: reasoning set apart, answer tags, and answers in prose."""

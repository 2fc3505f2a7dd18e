"""The authors' own questions, from a user's checkout or from what their generator wrote (docs/multistar_published.md)."""

"""The published environment of KidGym, from a user's checkout, played through our loop as it is (docs/kidgym_published.md)."""

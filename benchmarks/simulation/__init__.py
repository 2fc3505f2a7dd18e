"""A cluster in virtual time around the real scheduling code: the router, the driver's queue and the admission rule."""

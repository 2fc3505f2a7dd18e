"""``raycade kumo``: KUMO's commands."""

"""The commands: ``fit_command`` is ``spdelaw fit``. Its arguments are the options."""
